"""Hostile requests to the web page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

ENDPOINT, BOOK = 8, 4
"""The numbers of the events of the endpoint `/score` and of a book; 0 scores a story, 2 shades
it."""

STORY = ("Omar ran.", ["deletion"], "auto", "exact", "sentences")
"""Valid input of the events 0 and `ENDPOINT`."""


def event(number: Any = 0, values: Iterable[Any] = STORY, session: Any = "abc", **more: Any):
    """What a browser or program posts."""
    return {"fn_index": number, "data": list(values), "session_hash": session, **more}


def changed(**values: Any) -> list[Any]:
    """Valid input with other values by name."""
    names = ("text", "operations", "windows", "method", "split")
    return [values.get(name, valid) for name, valid in zip(names, STORY, strict=True)]


def all_values(path: str) -> list[list[Any]]:
    """Values that make gradio read a file, alone or inside other values."""
    file = {"path": path, "meta": {"_type": "gradio.FileData"}}
    return [[file], [[file]], [{"a": file}], changed(text=file), changed(operations=[file])]


def file_requests(
    path: str, numbers: Iterable[int] = range(-1, 10)
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests that could return a file of the server, as method, path and options of
    `httpx.request`: events, by number and by name, at all paths at which gradio takes events or
    serves files."""
    paths = "run/predict api/predict run/score api/score run/opened call/score call/v2/score"
    paths += (
        " queue/join queue/join/ upload component_server stream/1/1/1/playlist.m3u8 reset cancel"
    )
    for number in numbers:
        for values in all_values(path):
            for target in [*paths.split(), f"run/{number}", f"call/{number}"]:
                for prefix in ("/gradio_api/", "/", "/gradio_api//"):
                    yield "POST", prefix + target, {"json": event(number, values)}
    files = f"file={path} file/{path} proxy=file://{path} app_id startup-events deep_link"
    for target in files.split():
        for prefix in ("/gradio_api/", "/"):
            yield "GET", prefix + target, {}
    others = "/info /gradio_api/config /gradio_api/openapi.json /docs /openapi.json /monitoring"
    others += f" /login /manifest.json /assets/../../../../{path} /static/{path}"
    others += f" /static/%2e%2e/%2e%2e{path}"
    for target in others.split():
        yield "GET", target, {}
    yield "POST", "/gradio_api/upload", {"files": {"files": ("a.txt", b"text")}}


KNOWN_HOSTS = ["localhost", "LOCALHOST.:80", "127.0.0.1:7860", "[::1]:7860", "[0:0::1]"]
KNOWN_HOSTS += ["stories.example", "Stories.Example:443"]
OTHER_HOSTS = ["evil.com", "evil.com:7860", "localhost.evil.com", "localhost@evil.com", ""]
OTHER_HOSTS += ["localhost:80:80", "192.168.1.7:7860", "[::1].evil.com", "<script>"]
"""For a server that was started for 0.0.0.0 and stories.example, and is reached as localhost."""

ORIGINS = ["http://evil.com", "null", "", "://", "http://[", "http://localhost:3000"]
ORIGINS += ["http://[::1", "http://localhost", "http://localhost:7860.evil.com"]
OTHER_PAGES = [{"origin": origin} for origin in ORIGINS]
OTHER_PAGES += [{"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}]
"""Headers of posts that browsers send from other pages than http://localhost:7860."""

_FILE = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}

INVALID_EVENTS = [
    *(event(number) for number in (99, -1, "0", 0.0, True, None, [0], 7)),
    *(event(values=values) for values in ([], STORY[:4], [*STORY, "/etc"])),
    *(event(values=changed(text=value)) for value in (None, 5, _FILE)),
    *(event(values=changed(operations=value)) for value in ("deletion", ["no"], [["deletion"]])),
    event(values=changed(windows={})),
    event(values=changed(split=["lines"])),
    *(event(2, [None, "deletion", k]) for k in ("many", True, -1, 1e9)),
    event(2, ["token", "deletion", 3]),
    *(event(session=session) for session in (5, "a/b", "", "a\n")),
    {"data": []},
    [event()],
    None,
]

INVALID_SCORES = [
    *([], ["Omar ran."], [*STORY, "encoder"]),
    *(changed(text=value) for value in (_FILE, ["Omar ran."], {"text": "Omar ran."}, None, 5)),
    *(changed(operations=value) for value in ("deletion", 0, [_FILE], [["deletion"]])),
    *(changed(operations=value) for value in (["deletion"] * 99, ["/etc/passwd"], {"deletion": 1})),
    *(changed(windows=value) for value in (5, [1], _FILE)),
    *(changed(method=value) for value in (True, "/etc/passwd", ["exact"], None)),
    *(changed(split=value) for value in ("/etc/passwd", ["lines"])),
]
"""Values of `/score`."""

INVALID_CALLS = [
    *({"data": values} for values in INVALID_SCORES),
    *({"data": data} for data in (None, "Omar ran.", {"text": "Omar ran."}, 5, _FILE)),
    *({}, [], None, 5, "data", [list(STORY)], {"text": "Omar ran."}, {"fn_index": ENDPOINT}),
]
"""What is posted to the endpoint by plain HTTP."""

UNKNOWN_CALLS = ["0" * 32, "abc", "a" * 10_000, "..", "%2e%2e", "a/b", "a%0a", "*", "", "score"]
"""Event ids that no call has returned; `abc` is a session."""

_CANCELLATION = {"fn_index": ENDPOINT, "session_hash": "abc", "event_id": "a1"}
INVALID_CANCELLATIONS = [
    *(_CANCELLATION | {"fn_index": number} for number in (0, 4, 99, True, [ENDPOINT])),
    *(_CANCELLATION | {"session_hash": session} for session in ("a/b", None)),
    *(_CANCELLATION | {"event_id": name} for name in (None, "../a", _FILE)),
    {"fn_index": ENDPOINT, "session_hash": "abc"},
    [],
    None,
]
"""What programs post to stop the scoring."""

INVALID_BODIES = [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 10_000, b'{"fn_index": NaN}']
"""For each path to which is posted."""
INVALID_EVENT_BODIES = [*INVALID_BODIES, json.dumps(event(session="\ud800")).encode()]

"""Hostile requests to the web page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def event(
    number=0,
    values=("Omar ran.", ["deletion"], "auto", "exact", "sentences"),
    session="abc",
    **more,
):
    return {"fn_index": number, "data": list(values), "session_hash": session, **more}


def all_values(path):
    """Values that make gradio read a file, alone or inside other values."""
    file = {"path": path, "meta": {"_type": "gradio.FileData"}}
    scored = [
        [file, ["deletion"], "auto", "exact", "lines"],
        ["Omar.", [file], "auto", "exact", "lines"],
    ]
    return [[file], [[file]], [{"a": file}], *scored]


def file_requests(path: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests that could return a file of the server, as method, path and options of
    `httpx.request`: all events, by number and by name, at all paths at which gradio takes events or
    serves files."""
    paths = [
        "run/predict",
        "api/predict",
        "run/score",
        "api/score",
        "run/opened",
        "call/score",
        "call/v2/score",
    ]
    paths += [
        "queue/join",
        "queue/join/",
        "upload",
        "component_server",
        "stream/1/1/1/playlist.m3u8",
        "reset",
        "cancel",
    ]
    for number in range(-1, 10):
        for values in all_values(path):
            for target in [*paths, f"run/{number}", f"call/{number}"]:
                for prefix in ("/gradio_api/", "/", "/gradio_api//"):
                    yield "POST", prefix + target, {"json": event(number, values)}
    for target in (
        f"file={path}",
        f"file/{path}",
        f"proxy=file://{path}",
        "app_id",
        "startup-events",
        "deep_link",
    ):
        for prefix in ("/gradio_api/", "/"):
            yield "GET", prefix + target, {}
    for target in (
        "/info",
        "/gradio_api/config",
        "/gradio_api/openapi.json",
        "/docs",
        "/openapi.json",
        "/monitoring",
        "/login",
        "/manifest.json",
    ):
        yield "GET", target, {}
    for target in (
        f"/assets/../../../../{path}",
        f"/static/%2e%2e/%2e%2e{path}",
        f"/static/{path}",
    ):
        yield "GET", target, {}
    yield "POST", "/gradio_api/upload", {"files": {"files": ("a.txt", b"text")}}


KNOWN_HOSTS = [
    "localhost",
    "LOCALHOST.:80",
    "127.0.0.1:7860",
    "[::1]:7860",
    "[0:0::1]",
    "stories.example",
    "Stories.Example:443",
]
OTHER_HOSTS = [
    "evil.com",
    "evil.com:7860",
    "localhost.evil.com",
    "localhost@evil.com",
    "localhost:80:80",
    "192.168.1.7:7860",
    "",
    "[::1].evil.com",
    "<script>",
]
"""For a server that was started for 0.0.0.0 and stories.example, and is reached as localhost."""

OTHER_PAGES = [
    {"origin": "http://evil.com"},
    {"origin": "null"},
    {"origin": "http://localhost:3000"},
    {"origin": "http://localhost"},
    {"origin": "http://localhost:7860.evil.com"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]
"""Headers of posts that browsers send from other pages than http://localhost:7860."""

INVALID_EVENTS = [
    event(number=99),
    event(number=-1),
    event(number="0"),
    event(number=0.0),
    event(number=True),
    event(number=None),
    event(values=[]),
    event(values=["Omar ran.", ["deletion"], "auto", "exact"]),
    event(values=["Omar ran.", ["deletion"], "auto", "exact", "sentences", "/etc"]),
    event(values=[None, ["deletion"], "auto", "exact", "sentences"]),
    event(values=[5, ["deletion"], "auto", "exact", "sentences"]),
    event(values=["Omar ran.", "deletion", "auto", "exact", "sentences"]),
    event(values=["Omar ran.", ["no such"], "auto", "exact", "sentences"]),
    event(values=["Omar ran.", [["deletion"]], "auto", "exact", "sentences"]),
    event(values=["Omar ran.", ["deletion"], {}, "exact", "sentences"]),
    event(values=["Omar ran.", ["deletion"], "auto", "exact", ["lines"]]),
    event(2, [None, "deletion", "many"]),
    event(2, [None, "deletion", True]),
    event(2, ["token", "deletion", 3]),
    event(session=5),
    event(session="a/b"),
    event(session=""),
    {"data": []},
    [event()],
    None,
]

ENDPOINT = 5
"""The number of the event of the endpoint `/score`."""

_FILE = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
INVALID_SCORES = [
    [],
    ["Omar ran."],
    ["Omar ran.", ["deletion"], "auto", "exact", "sentences", "encoder"],
    [_FILE, ["deletion"], "auto", "exact", "sentences"],
    [["Omar ran."], ["deletion"], "auto", "exact", "sentences"],
    [{"text": "Omar ran."}, ["deletion"], "auto", "exact", "sentences"],
    [None, ["deletion"], "auto", "exact", "sentences"],
    [5, ["deletion"], "auto", "exact", "sentences"],
    ["Omar ran.", "deletion", "auto", "exact", "sentences"],
    ["Omar ran.", None, "auto", "exact", "sentences"],
    ["Omar ran.", [_FILE], "auto", "exact", "sentences"],
    ["Omar ran.", [["deletion"]], "auto", "exact", "sentences"],
    ["Omar ran.", ["deletion"] * 1000, "auto", "exact", "sentences"],
    ["Omar ran.", ["/etc/passwd"], "auto", "exact", "sentences"],
    ["Omar ran.", {"deletion": 1}, "auto", "exact", "sentences"],
    ["Omar ran.", ["deletion"], 5, "exact", "sentences"],
    ["Omar ran.", ["deletion"], [1], "exact", "sentences"],
    ["Omar ran.", ["deletion"], _FILE, "exact", "sentences"],
    ["Omar ran.", ["deletion"], "auto", True, "sentences"],
    ["Omar ran.", ["deletion"], "auto", "/etc/passwd", "sentences"],
    ["Omar ran.", ["deletion"], "auto", ["exact"], "sentences"],
    ["Omar ran.", ["deletion"], "auto", None, "sentences"],
    ["Omar ran.", ["deletion"], "auto", "exact", "/etc/passwd"],
    ["Omar ran.", ["deletion"], "auto", "exact", ["lines"]],
]
"""Values of `/score`."""

INVALID_CANCELLATIONS = [
    {"fn_index": 0, "session_hash": "abc", "event_id": "a1"},
    {"fn_index": 4, "session_hash": "abc", "event_id": "a1"},
    {"fn_index": 99, "session_hash": "abc", "event_id": "a1"},
    {"fn_index": True, "session_hash": "abc", "event_id": "a1"},
    {"fn_index": [ENDPOINT], "session_hash": "abc", "event_id": "a1"},
    {"fn_index": ENDPOINT, "session_hash": "a/b", "event_id": "a1"},
    {"fn_index": ENDPOINT, "session_hash": None, "event_id": "a1"},
    {"fn_index": ENDPOINT, "session_hash": "abc", "event_id": None},
    {"fn_index": ENDPOINT, "session_hash": "abc", "event_id": "../a"},
    {"fn_index": ENDPOINT, "session_hash": "abc", "event_id": _FILE},
    {"fn_index": ENDPOINT, "session_hash": "abc"},
    [],
    None,
]
"""What programs post to stop the scoring."""

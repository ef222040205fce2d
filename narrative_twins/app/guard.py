"""Access to the web page: which hosts, requests and values the server accepts. All else is refused
before gradio, whose own endpoints read files of the server and change with its releases, sees
it."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self'"
    " 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; object-src 'none';"
    " base-uri 'self'; form-action 'self'"
)
"""The content security policy: browsers may load from and send to this server only."""

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
"""Names by which browsers on the same machine reach the server."""

MAX_BODY = 16_000_000
"""Bytes of the body of a request: enough for the longest story, each character escaped."""

EVENTS = "/gradio_api/queue/join"
CANCEL = "/gradio_api/cancel"
INFO = "/gradio_api/info"
_MESSAGES = "/gradio_api/queue/data"
_PATHS = re.compile(
    r"/|/theme\.css|/favicon\.ico|/(assets|static)/[\w./+-]+|/download/[\w-]+\.[a-z]+"
    rf"|/config|{INFO}|/gradio_api/heartbeat/[\w-]+|{_MESSAGES}"
)
"""The paths that the page and programs read. Events are posted to `EVENTS`, and programs cancel
them at `CANCEL`."""

_INVALID = "The request is not valid."
_WILDCARDS = ("0.0.0.0", "::")
_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]

ASGI: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
Checks: TypeAlias = Mapping[int, Sequence[Callable[[Any], bool]]]
"""For the number of each event that may be posted, whether each of its input values is valid. Those
of an endpoint for programs are `Parameter`s."""


@dataclass(frozen=True)
class Parameter:
    """An input value of an endpoint for programs, which are told what is wrong with their values.

    Attributes:
        name: the name of the parameter.
        takes: what it takes, in words.
        valid: whether a value is valid.
    """

    name: str
    takes: str
    valid: Callable[[Any], bool]

    def __call__(self, value: Any) -> bool:
        """Whether a value is valid."""
        return self.valid(value)


class _Refused(Exception):
    """A request is refused with an HTTP status and a message."""

    kind = "text/plain"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status, self.message = status, message


class _WrongValues(_Refused):
    """A program is told as JSON what is wrong with its values."""

    kind = "application/json"


class Guard:
    """ASGI middleware that serves only what the page needs, and adds `POLICY` to every response.

    Requests to a host that the server was not started for are refused, so that a foreign page whose
    name is made to resolve to this machine (DNS rebinding) can't use it. Posts from pages of
    another origin are refused.

    Args:
        app: the application.
        hosts: names and addresses by which the page may be reached, without port. The address at
            which a request arrives is added if one of them stands for all addresses of the machine
            (`0.0.0.0`, `::`).
        checks: the events that may be posted.
    """

    def __init__(self, app: ASGI, hosts: Collection[str], checks: Checks) -> None:
        self.app, self.checks = app, checks
        self.any_address = any(host in _WILDCARDS for host in hosts)
        self.hosts = {_canonical(host) for host in (*hosts, *LOCAL_NAMES)}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        try:
            self._check_host(scope, headers)
            if scope["method"] in ("GET", "HEAD"):
                if not _PATHS.fullmatch(scope["path"]) or ".." in scope["path"]:
                    raise _Refused(404, "Not found.")
                if scope["path"] != _MESSAGES:
                    # gradio would take names of stored states from it, for example.
                    scope = {**scope, "query_string": b""}
            elif scope["method"] == "POST" and scope["path"] in (EVENTS, CANCEL):
                _check_origin(headers)
                rewritten = self._event if scope["path"] == EVENTS else self._cancellation
                body = rewritten(await _read_body(receive))
                scope, receive = _with_body({**scope, "query_string": b""}, body, receive)
            else:
                raise _Refused(405 if scope["path"] in (EVENTS, CANCEL) else 404, "Not found.")
        except _Refused as error:
            await _respond(send, error)
            return
        await self.app(scope, receive, send)

    def _check_host(self, scope: Any, headers: Mapping[str, str]) -> None:
        name = _host_of(headers.get("host", ""))
        if (
            name in self.hosts
            or self.any_address
            and name == _canonical((scope.get("server") or ("",))[0])
        ):
            return
        shown = "".join(char if char.isalnum() or char in ".:-" else "?" for char in name[:100])
        raise _Refused(
            403,
            f"The page is not served as {shown!r}. To allow it: narrative-twins app --allow-host"
            " NAME",
        )

    def _event(self, body: bytes) -> bytes:
        """The event that a request posts, written anew with what is needed of it."""
        event = _parsed(body)
        try:
            number, values, session = event["fn_index"], event["data"], event["session_hash"]
            trigger = event.get("trigger_id")
            checks = self.checks[number]
            known = (
                type(number) is int
                and _is_session(session)
                and (trigger is None or type(trigger) is int)
                and isinstance(values, list)
            )
        except (TypeError, KeyError, AttributeError):
            known = False
        if not known:
            raise _Refused(422, _INVALID)
        _check_values(values, checks)
        return json.dumps(
            {
                "data": values,
                "fn_index": number,
                "session_hash": session,
                "trigger_id": trigger,
                "event_data": None,
            }
        ).encode()

    def _cancellation(self, body: bytes) -> bytes:
        """The event that a program cancels, written anew with what is needed of it."""
        cancelled = _parsed(body)
        try:
            number, session, event = (
                cancelled["fn_index"],
                cancelled["session_hash"],
                cancelled["event_id"],
            )
            valid = (
                type(number) is int
                and _is_endpoint(self.checks[number])
                and _is_session(session)
                and isinstance(event, str)
                and re.fullmatch(r"\w{1,64}", event) is not None
            )
        except (TypeError, KeyError):
            valid = False
        if not valid:
            raise _Refused(422, _INVALID)
        return json.dumps({"fn_index": number, "session_hash": session, "event_id": event}).encode()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _Refused(422, _INVALID) from None


def _is_session(session: Any) -> bool:
    return isinstance(session, str) and re.fullmatch(r"[\w-]{1,64}", session) is not None


def _is_endpoint(checks: Sequence[Callable[[Any], bool]]) -> bool:
    return any(isinstance(check, Parameter) for check in checks)


def _check_values(values: list[Any], checks: Sequence[Callable[[Any], bool]]) -> None:
    """Refuse values that are not valid. Programs are told of each, in the form that clients of
    gradio read."""
    if len(values) == len(checks):
        wrong = [check for check, value in zip(checks, values, strict=True) if not check(value)]
        problems = {
            check.name: f"takes {check.takes}" for check in wrong if isinstance(check, Parameter)
        }
        if not wrong:
            return
    else:
        names = [check.name for check in checks if isinstance(check, Parameter)]
        problems = {"data": f"takes {len(names)} values: {', '.join(names)}"} if names else {}
    if not problems:
        raise _Refused(422, _INVALID)
    form = {"__type__": "validate", "is_valid": False}
    detail = [
        form | {"parameter_name": name, "message": message} for name, message in problems.items()
    ]
    raise _WrongValues(422, json.dumps({"detail": detail}))


def _canonical(host: str) -> str:
    """A host in one spelling: IP addresses as `ipaddress` writes them, names in lower case without
    the last dot."""
    host = host.strip("[]")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().removesuffix(".")


def _host_of(netloc: str) -> str:
    """The host of a `Host` header, without its port."""
    name = re.fullmatch(r"(\[[\da-fA-F:.]+\]|[^:\[\]@/]*)(:\d{1,5})?", netloc)
    return _canonical(name[1]) if name else ""


def _check_origin(headers: Mapping[str, str]) -> None:
    """Browsers send the origin of the page that posts; other clients need not."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        raise _Refused(403, "Requests from other pages are refused.")
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise _Refused(403, "Requests from other pages are refused.")


async def _read_body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise _Refused(400, "The request has no end.")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY:
            raise _Refused(413, "The story is too long.")
    return body


def _with_body(scope: Any, body: bytes, receive: Any) -> tuple[Any, Any]:
    """A request with another body."""
    kept = [(name, value) for name, value in scope["headers"] if name.lower() not in _BODY_HEADERS]
    kept += [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]
    unread = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_body() -> Any:
        return unread.pop() if unread else await receive()

    return {**scope, "headers": kept}, receive_body


_BODY_HEADERS = (b"content-length", b"content-type", b"content-encoding", b"transfer-encoding")


def _with_headers(send: Any) -> Any:
    async def send_with_headers(message: Any) -> None:
        if message["type"] == "http.response.start":
            # gradio lets other pages of the same machine read answers.
            kept = [
                pair
                for pair in message.get("headers", ())
                if not pair[0].lower().startswith(b"access-control-")
            ]
            message = {**message, "headers": [*kept, *_HEADERS]}
        await send(message)

    return send_with_headers


async def _respond(send: Any, error: _Refused) -> None:
    body = f"{error.message}\n".encode()
    kind = f"{error.kind}; charset=utf-8".encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""Access to the web page: which hosts, requests and values the server accepts. All else is refused
before gradio, whose own endpoints read files of the server and change with its releases, sees
it."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

from fastapi import HTTPException
from pydantic import BaseModel, NonNegativeInt, StringConstraints, TypeAdapter, ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse

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
CALL = "/gradio_api/call/score"
INFO = "/gradio_api/info"
_MESSAGES = "/gradio_api/queue/data"
_PATHS = re.compile(
    r"/|/theme\.css|/favicon\.ico|/(assets|static)(/[\w.+-]{1,200}){1,9}"
    r"|/download/[\w-]{1,99}\.\w{1,9}"
    rf"|/config|{INFO}|/gradio_api/heartbeat/[\w-]{{1,99}}|{_MESSAGES}"
)
"""The paths that the page and programs read. Events are posted to `EVENTS`, and programs cancel
them at `CANCEL`. Programs without a client of gradio post calls of the endpoint to `CALL`, and read
what becomes of each at `CALL/EVENT_ID`."""

MAX_CALLS = 1_000
"""Calls whose messages nobody has read yet; those of older ones can't be read any more."""

_ALL_ADDRESSES = ("0.0.0.0", "::")
_CHECKED = (b"origin", b"access-control-request-method", b"access-control-request-headers")
"""Headers that no request needs after the guard; gradio fails on some of their values."""
_BODY_HEADERS = (b"content-length", b"content-type", b"content-encoding", b"transfer-encoding")


class Input(NamedTuple):
    """A value that browsers and programs send: its type, and what it is, in words that follow
    "takes"."""

    type: Any
    about: str

    def accepts(self, value: Any) -> bool:
        """Whether a value has the type, without conversion."""
        try:
            TypeAdapter(self.type).validate_python(value, strict=True)
        except ValidationError:
            return False
        return True


class Posted(BaseModel, strict=True):
    """What every posted request names."""

    fn_index: NonNegativeInt
    session_hash: Annotated[str, StringConstraints(pattern=r"^[\w-]{1,64}$")]


class Event(Posted):
    """An event of the page, or a call of the endpoint, with its input values."""

    data: list[Any]
    trigger_id: int | None = None


class Call(BaseModel, strict=True):
    """A call of the endpoint without a client of gradio, with its input values."""

    data: list[Any]


class Cancellation(Posted):
    """An event that a program cancels."""

    event_id: Annotated[str, StringConstraints(pattern=r"^\w{1,64}$")]


class Guard:
    """ASGI middleware that serves only what the page needs, and adds `POLICY` to every response.

    Requests to a host that the server was not started for are refused, so that a foreign page whose
    name is made to resolve to this machine (DNS rebinding) can't use it. Posts from pages of
    another origin are refused. Starlette's `TrustedHostMiddleware` does not know the address at
    which a request arrives, by which a server that listens at all addresses is reached.

    Args:
        app: the application.
        hosts: names and addresses by which the page may be reached, without port. The address at
            which a request arrives is added if one of them means all addresses of the machine
            (`0.0.0.0`, `::`).
        events: the inputs by name of the events that may be posted, by their numbers.
        endpoint: the number of the event that programs may post, too; -1 if there is none. They
            get the names of the inputs that are not valid.
    """

    def __init__(
        self,
        app: Any,
        hosts: Collection[str],
        events: Mapping[int, Mapping[str, Input]],
        endpoint: int,
    ) -> None:
        self.app, self.events, self.endpoint = app, events, endpoint
        self.any_address = any(host in _ALL_ADDRESSES for host in hosts)
        self.hosts = {_canonical(host) for host in (*hosts, *LOCAL_NAMES)}
        self.calls: dict[str, None] = {}  # event ids in their order

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        is_call = (scope["method"], scope["path"]) == ("POST", CALL)

        async def send_with_headers(message: Any) -> None:
            if is_call and message["type"] == "http.response.body":
                self._remember(message.get("body", b""))
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                # gradio lets other pages of the same machine read answers.
                for name in [name for name in headers if name.startswith("access-control-")]:
                    del headers[name]
                headers["content-security-policy"] = POLICY
                headers["referrer-policy"] = "no-referrer"
                headers["x-content-type-options"] = "nosniff"
                message = {**message, "headers": headers.raw}
            await send(message)

        app = self.app
        try:
            scope, receive = await self._accepted(Request(scope, receive))
            headers = [header for header in scope["headers"] if header[0] not in _CHECKED]
            scope = {**scope, "headers": headers}
        except HTTPException as error:
            if isinstance(error.detail, str):
                app = PlainTextResponse(f"{error.detail}\n", error.status_code)
            else:
                app = JSONResponse({"detail": error.detail}, error.status_code)
        except ClientDisconnect:
            return
        await app(scope, receive, send_with_headers)

    async def _accepted(self, request: Request) -> tuple[Any, Any]:
        """Scope and messages of a request that may be passed on, with no more than the application
        needs of it."""
        self._check_host(request)
        # Not that of `request.url`, which depends on the header `Host`.
        path = request.scope["path"]
        if request.method == "GET" and path.startswith(f"{CALL}/"):
            # gradio would answer an unknown id with a stream that breaks, or does not end.
            event_id = path.removeprefix(f"{CALL}/")
            if event_id not in self.calls:
                raise HTTPException(404, "There is no such event, or it was read already.")
            del self.calls[event_id]
            return {**request.scope, "query_string": b""}, request.receive
        if request.method in ("GET", "HEAD"):
            if not _PATHS.fullmatch(path) or ".." in path:
                raise HTTPException(404, "Not found.")
            # gradio would take names of stored states from the query, for example.
            query = request.scope["query_string"] if path == _MESSAGES else b""
            return {**request.scope, "query_string": query}, request.receive
        is_known = path in (EVENTS, CANCEL) or (path == CALL and self.endpoint >= 0)
        if not is_known or request.method != "POST":
            raise HTTPException(405 if is_known else 404, "Not found.")
        _check_origin(request.headers)
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > MAX_BODY:
                raise HTTPException(413, "The story is too long.")
        try:
            posted = self._posted(path, json.loads(content))
        except (ValueError, RecursionError):
            raise HTTPException(422, "The request is not valid.") from None
        body = json.dumps(posted.model_dump()).encode()
        headers = [header for header in request.headers.raw if header[0] not in _BODY_HEADERS]
        headers += [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return unread.pop() if unread else await request.receive()

        return {**request.scope, "headers": headers, "query_string": b""}, receive

    def _remember(self, answer: bytes) -> None:
        """Remember the event id in the answer to a call, if it was accepted."""
        with suppress(ValueError, KeyError, TypeError):
            self.calls[str(json.loads(answer)["event_id"])] = None
        while len(self.calls) > MAX_CALLS:
            del self.calls[next(iter(self.calls))]

    def _check_host(self, request: Request) -> None:
        host = request.headers.get("host", "")
        # Without the port.
        found = re.fullmatch(r"(\[[\da-fA-F:.]+\]|[^:\[\]@/]*)(:\d{1,5})?", host)
        name = _canonical(found[1]) if found else ""
        arrived = _canonical((request.scope.get("server") or ("",))[0])
        if name not in self.hosts and not (self.any_address and name == arrived):
            shown = re.sub(r"[^\w.:-]", "?", name[:100])
            raise HTTPException(
                403,
                f"The page is not served as {shown!r}. To allow it, start it with --allow-host"
                " NAME.",
            )

    def _posted(self, path: str, content: Any) -> Posted | Call:
        """An event, a call or a cancellation that is valid. Raises `ValueError`, or for programs a
        `HTTPException` with the inputs that are not valid."""
        if path == CANCEL:
            cancelled = Cancellation.model_validate(content)
            if cancelled.fn_index != self.endpoint:
                raise ValueError("only calls of the endpoint are cancelled this way")
            return cancelled
        event: Event | Call
        if path == CALL:
            event, number = Call.model_validate(content), self.endpoint
        else:
            event = Event.model_validate(content)
            number = event.fn_index
        inputs = self.events.get(number)
        if inputs is None:
            raise ValueError(f"there is no event {number}")
        problems = {}
        if len(event.data) != len(inputs):
            problems["data"] = f"takes {len(inputs)} values: {', '.join(inputs)}"
        else:
            for (name, accepted), value in zip(inputs.items(), event.data, strict=True):
                if not accepted.accepts(value):
                    problems[name] = f"takes {accepted.about}"
        if problems and number != self.endpoint:
            raise ValueError("values of the wrong type")
        if problems:
            # In the form that clients of gradio show.
            form = {"__type__": "validate", "is_valid": False}
            named = [{"parameter_name": name, "message": takes} for name, takes in problems.items()]
            raise HTTPException(422, [form | problem for problem in named])
        return event


def _canonical(host: str) -> str:
    """A host in one spelling: IP addresses as `ipaddress` writes them, names in lower case without
    the last dot."""
    host = host.strip("[]")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().removesuffix(".")


def _check_origin(headers: Headers) -> None:
    """Browsers send the origin of the page that posts; other clients need not."""
    origin, host = headers.get("origin"), headers.get("host", "")
    other_origin = origin is not None and origin.partition("://")[2].lower() != host.lower()
    site = headers.get("sec-fetch-site", "same-origin")
    if other_origin or site not in ("same-origin", "none"):
        raise HTTPException(403, "Requests from other pages are refused.")

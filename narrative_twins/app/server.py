"""The server of the web page; needs gradio. Neither it nor the browser contacts other machines, except to download an
encoder from the Hub."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from narrative_twins.app.layout import HEAD, build_blocks, import_gradio, theme
from narrative_twins.app.page import Page
from narrative_twins.app.queue import ScoringQueue
from narrative_twins.show.formats import FORMATS

PORT = 7860

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'"
)
"""The content security policy: browsers may load from and send to this server only."""

MAX_UPLOAD = "8mb"  # per file
_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    model: str | None = None,
    patience: float = 3600.0,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        host: the address to listen at; default this machine only. At others, users of the page can't name an encoder.
        port: default 7860, or the next free port; 0 for any free port.
        model: folder or Hub id of the encoder; None for the default encoder.
        patience: the longest estimated time of a story, in seconds; longer stories are refused.
        ready: called with the address of the page when it is served.

    Raises:
        ModuleNotFoundError: gradio is not installed.
        OSError: the host is unknown, the port is taken, or the encoder does not exist.
        ValueError: the encoder can't be used.
    """
    import_gradio()
    import uvicorn

    with _listen(host, port) as listener:
        queue = ScoringQueue(model, patience)
        queue.load()
        app = application(Page(queue), any_encoder=host in _LOCAL)
        # Connections that are open at the end are closed after a second, without error messages.
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{listener.getsockname()[1]}/")
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            queue.close()


def application(page: Page, any_encoder: bool = True) -> Any:
    """The page as an ASGI application, with its downloads. Raises `ModuleNotFoundError` if gradio is not installed.

    Args:
        page: handles the events.
        any_encoder: whether users may name an encoder, which the server then loads from its disk or the Hub.
    """
    gr = import_gradio()
    from fastapi import FastAPI, HTTPException
    from fastapi.responses import StreamingResponse

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(_Policy)

    def download(name: str) -> StreamingResponse:
        token, _, form = name.rpartition(".")
        try:
            pieces = page.download(token, form)
        except KeyError:
            raise HTTPException(404, "These results are no longer stored; score the story again.") from None
        headers = {"Content-Disposition": f"attachment; filename=salience.{form}"}
        return StreamingResponse(pieces, media_type=f"{FORMATS[form].media_type}; charset=utf-8", headers=headers)

    app.add_api_route("/download/{name}", download, response_model=None)
    return gr.mount_gradio_app(
        app,
        build_blocks(gr, page, any_encoder),
        path="/",
        theme=theme(gr),
        css=files("narrative_twins.app").joinpath("app.css").read_text(encoding="utf-8"),
        head=HEAD,
        footer_links=[],
        run_history=False,
        show_error=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        max_file_size=MAX_UPLOAD,
    )


class _Policy:
    """Middleware that adds the policy to every response."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        async def with_policy(message: Any) -> None:
            if message["type"] == "http.response.start":
                added = [(b"content-security-policy", POLICY.encode()), (b"referrer-policy", b"no-referrer")]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self.app(scope, receive, with_policy)


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens at the port, or by default at the first free port from 7860 on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(PORT, PORT + 100) if port is None else [port]:
        try:
            return socket.create_server((host, number), family=family)
        except OSError as error:
            problem = error
            if not isinstance(error, socket.gaierror) and port is None:
                continue
            break
    raise OSError(f"can't use port {number} of {host} ({problem.strerror or problem}); choose another --port or --host")

"""The web page: paste a story, score it, read it shaded. Nothing is fetched from elsewhere and nothing sent there, by
server or browser. Needs gradio."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from narrative_twins.app.layout import HEAD, blocks, gradio, theme
from narrative_twins.app.page import Page
from narrative_twins.app.queue import ScoringQueue
from narrative_twins.show.formats import FORMATS

PORT = 7860

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'"
)
"""What a browser may load: whatever gradio's page asks for, nothing comes from elsewhere and nothing goes there."""

LARGEST = "8mb"
"""Of a file that is opened."""

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
        host: where; default this machine alone. Elsewhere nobody but you can name an encoder.
        port: default 7860, or the next one that is free; 0 for any.
        model: folder or Hub id of the encoder; None for the default one.
        patience: how many seconds a story may take, by the estimate.
        ready: called with the address of the page.

    Raises:
        ModuleNotFoundError: gradio is not installed.
        OSError: there is no such host, the port is taken, or there is no such encoder.
        ValueError: the encoder can't be used.
    """
    gradio()
    import uvicorn

    with _listening(host, port) as listening:
        queue = ScoringQueue(model, patience)
        queue.load()
        app = application(Page(queue), any_encoder=host in _LOCAL)
        # What is open when the end comes is cut off; that is no error to log.
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{listening.getsockname()[1]}/")
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            queue.close()


def application(page: Page, any_encoder: bool = True) -> Any:
    """The page as an ASGI application, with its downloads.

    Args:
        page: what happens on it.
        any_encoder: whether readers may name an encoder, which the server then loads from its disk or the Hub.

    Raises:
        ModuleNotFoundError: gradio is not installed.
    """
    gr = gradio()
    from fastapi import FastAPI, HTTPException
    from fastapi.responses import StreamingResponse

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(_Policy)

    def download(name: str) -> StreamingResponse:
        token, _, form = name.rpartition(".")
        try:
            found = page.download(token, form)
        except KeyError:
            raise HTTPException(404, "These results are no longer kept; score the story again.") from None
        kept = {"Content-Disposition": f"attachment; filename=salience.{form}"}
        return StreamingResponse(found, media_type=f"{FORMATS[form].media_type}; charset=utf-8", headers=kept)

    app.add_api_route("/download/{name}", download, response_model=None)
    return gr.mount_gradio_app(
        app,
        blocks(gr, page, any_encoder),
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
        max_file_size=LARGEST,
    )


class _Policy:
    """Puts the policy on every answer."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        async def with_policy(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(b"content-security-policy", POLICY.encode()), (b"referrer-policy", b"no-referrer")]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        await self.app(scope, receive, with_policy)


def _listening(host: str, port: int | None) -> socket.socket:
    """A socket that connections can wait at."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for at in range(PORT, PORT + 100) if port is None else [port]:
        try:
            return socket.create_server((host, at), family=family)
        except OSError as error:
            problem = error
            if not isinstance(error, socket.gaierror) and port is None:
                continue
            break
    raise OSError(f"no page at port {at} of {host} ({problem.strerror or problem}); choose another by --port or --host")

"""The server of the web pages; needs gradio. Neither it nor the browser contacts other machines,
except to download an encoder from the Hub."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from importlib.resources import files
from tempfile import TemporaryDirectory
from typing import Any

from narrative_twins.show.pages import script as reader_script
from narrative_twins.show.pages import style

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Names by which browsers on the same machine reach the server."""
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self'"
    " 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; object-src 'none';"
    " base-uri 'self'; form-action 'self'"
)
"""The content security policy: browsers may load from and send to this server only."""
MAX_FILE = 10_000_000
"""Bytes of the largest file that can be opened on the page."""


def serve(
    build: Callable[[], Any],
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    allow_hosts: Collection[str] = (),
    ready: Callable[[str], None] = print,
) -> None:
    """Serve a page until Ctrl-C, which is raised as `KeyboardInterrupt`.

    Args:
        build: returns the page: an object with gradio's `blocks`, and with `routes`, a function for
            each other path. Files that users open on the page are in a temporary folder.
        host: the address to listen at; default this machine only.
        port: default 7860, or the next free port; 0 for any free port.
        allow_hosts: further names by which the page may be reached, for example through a proxy.
        ready: called with the address of the page when it can be requested.

    Raises:
        OSError: the host is unknown, or the port is taken.
    """
    import uvicorn

    name = f"[{host}]" if ":" in host else host

    with _listen(host, port) as listener, TemporaryDirectory() as uploads:
        os.environ["GRADIO_TEMP_DIR"] = uploads
        config = uvicorn.Config(
            application(build(), (name, *allow_hosts)),
            ws="none",
            log_level="critical",
            limit_concurrency=256,
            timeout_keep_alive=30,
            # Connections that are open at the end are closed then, without error messages.
            timeout_graceful_shutdown=1,
        )
        ready(f"http://{name}:{listener.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listener])


def application(page: Any, hosts: Collection[str] = ()) -> Any:
    """Return an ASGI app that serves a page under the names of this machine and under `hosts`."""
    # Otherwise gradio reports errors to its developers, and checks for updates.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    import gradio as gr
    from fastapi import FastAPI, Request
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    async def add_policy(request: Request, call_next: Any) -> Any:
        """Add the content security policy to a response."""
        response = await call_next(request)
        response.headers["content-security-policy"] = POLICY
        return response

    app.middleware("http")(add_policy)
    # Otherwise gradio, when mounted, does not check that a file that a request names was uploaded.
    page.blocks.has_launched = True
    # Otherwise a page from elsewhere, whose name resolves to this machine, could read answers.
    names = [*LOCAL_NAMES, *hosts]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    for path, route in page.routes.items():
        app.add_api_route(path, route, response_model=None)
    css, theme, code = (
        files("narrative_twins.app").joinpath(name).read_text(encoding="utf-8")
        for name in ("app.css", "theme.css", "app.js")
    )
    theme, code = style(".dark") + theme, reader_script() + code
    # Fonts of the system only; `theme.css` has the colours.
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    return gr.mount_gradio_app(
        app,
        page.blocks,
        path="/",
        theme=gr.themes.Base(primary_hue="orange", neutral_hue="stone", **fonts),
        css=css,
        head=f"<style>{theme}</style><script>{code}</script>",
        footer_links=[],
        max_file_size=MAX_FILE,
        run_history=False,
        show_error=False,
        ssr_mode=False,
    )


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens at a port; None stands for the first free port from 7860 on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(7860, 7960) if port is None else [port]:
        with suppress(OSError):
            return socket.create_server((host, number), family=family)
    raise OSError(f"can't listen at port {number} of {host}; choose another --port or --host")

"""The server of the web page; needs gradio. Neither it nor the browser contacts other machines,
except to download an encoder from the Hub."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from narrative_twins.app.page import NO_RESULT, Page
from narrative_twins.app.queue import MAX_SENTENCES, ScoringQueue
from narrative_twins.extras import check_extra
from narrative_twins.files import ResumableFile
from narrative_twins.salience.options import Approximation
from narrative_twins.show.formats import FORMATS
from narrative_twins.stories.story import Story

if TYPE_CHECKING:
    from narrative_twins.app.annotate import Answers, Report
    from narrative_twins.app.layout import Layout

PORT = 7860


def serve(
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    model: str | None = None,
    allow_hosts: Collection[str] = (),
    patience: float = 3600.0,
    max_sentences: int = MAX_SENTENCES,
    approximate: Approximation | None = "one-pass",
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        host: the address to listen at; default this machine only. At others, visitors can't name an
            encoder.
        port: default 7860, or the next free port; 0 for any free port.
        model: folder or Hub id of the encoder; None for the default encoder.
        allow_hosts: further names by which the page may be reached, for example through a proxy;
            visitors can't name an encoder then. Requests to other hosts are refused.
        patience: the maximum time of a story, in seconds.
        max_sentences: the maximum number of sentences of a story or book.
        approximate: how stories are scored unless visitors and programs choose: in one pass, or
            exactly (None).
        ready: called with the address of the page when it is served.

    Raises:
        ImportError: gradio is not installed, or too old.
        OSError: the host is unknown, the port is taken, or the encoder does not exist.
        ValueError: the encoder can't be used.
    """
    check_extra("demo")
    from narrative_twins.app.guard import LOCAL_NAMES

    with _listen(host, port) as listener:
        queue = ScoringQueue(model, patience, max_sentences)
        _ = queue.own  # errors are those of the start
        any_encoder = host in LOCAL_NAMES and not allow_hosts
        page = Page(queue, any_encoder=any_encoder, approximate=approximate)
        app = application(page, (host, *allow_hosts))
        try:
            _run(app, host, listener, ready)
        finally:
            queue.close()


def serve_annotation(
    stories: Sequence[Story],
    out: str,
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    allow_hosts: Collection[str] = (),
    report: Report = print,
    ready: Callable[[str], None] = print,
) -> str:
    """Serve the page for annotators until Ctrl-C.

    Args:
        stories: the stories to read, see `Collection`.
        out: the file of the answers, JSON Lines; `OUT.part` until the end. Answers that it has are
            kept, and the others asked for.
        host, port, allow_hosts, ready: see `serve`.
        report: is called with the number of answers and their agreement after each answer.

    Returns:
        The number of answers and their agreement, in words.

    Raises:
        ImportError: gradio or a library of evaluation is not installed, or too old.
        OSError: the host is unknown, the port is taken, or the file can't be written.
        ValueError: a story can't be annotated; `ResumeError` if the file is of other stories.
    """
    check_extra("demo")
    check_extra("train")
    from narrative_twins.app.annotate import Answers, stories_digest

    settings = {"stories": stories_digest(stories)}
    with _listen(host, port) as listener:
        file = ResumableFile(out, settings, resume=True, sync=True)
        answers = Answers(stories, file, report)
        app = annotation_application(answers, (host, *allow_hosts))
        with file:
            # Ctrl-C ends the page, and completes the file.
            with suppress(KeyboardInterrupt):
                _run(app, host, listener, ready)
        return answers.state()


def _run(app: Any, host: str, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve an application until Ctrl-C."""
    import uvicorn

    from narrative_twins.app.connections import BoundedProtocol

    # Connections that are open at the end are closed after a second, without error messages.
    config = uvicorn.Config(
        app, http=BoundedProtocol, ws="none", log_level="critical", timeout_graceful_shutdown=1
    )
    name = f"[{host}]" if ":" in host else host

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # From here on Ctrl-C ends the server in order.
            ready(f"http://{name}:{listener.getsockname()[1]}/")

    Server(config).run(sockets=[listener])


def application(page: Page, hosts: Collection[str] = ()) -> Any:
    """The page as an ASGI application, with its downloads. Raises `ImportError` if gradio is not
    installed, or too old.

    Args:
        page: handles the events.
        hosts: names by which the page may be reached in addition to those of this machine.
    """
    _prepare_gradio()
    from fastapi import HTTPException
    from fastapi.responses import StreamingResponse

    from narrative_twins.app.layout import build_layout, endpoint_info

    layout = build_layout(page)

    def download(name: str) -> StreamingResponse:
        token, _, form = name.rpartition(".")
        try:
            pieces = page.download(token, form)
        except KeyError:
            raise HTTPException(404, NO_RESULT) from None
        headers = {"Content-Disposition": f"attachment; filename=salience.{form}"}
        return StreamingResponse(pieces, media_type=FORMATS[form].media_type, headers=headers)

    return _mounted(layout, endpoint_info(layout), hosts, {"/download/{name}": download})


def annotation_application(answers: Answers, hosts: Collection[str] = ()) -> Any:
    """The page for annotators as an ASGI application, see `application`; programs have no
    endpoint."""
    _prepare_gradio()
    from narrative_twins.app.annotate import AnnotationPage
    from narrative_twins.app.annotate_layout import build_annotation_layout

    layout = build_annotation_layout(AnnotationPage(answers))
    return _mounted(layout, {"named_endpoints": {}, "unnamed_endpoints": {}}, hosts, {})


def _prepare_gradio() -> None:
    check_extra("demo")
    # Otherwise gradio reports every page to its developers, and checks for updates.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"


def _mounted(
    layout: Layout, info: dict[str, Any], hosts: Collection[str], routes: Mapping[str, Any]
) -> Any:
    """A layout as an application behind the guard, with further routes, and what gradio tells
    clients of it."""
    import gradio as gr
    from fastapi import FastAPI

    from narrative_twins.app.guard import INFO, Guard

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard, hosts=hosts, events=layout.events, endpoint=layout.endpoint)
    for path, route in routes.items():
        app.add_api_route(path, route, response_model=None)
    # Instead of gradio's, which has more, and keeps the host that its first client names.
    app.add_api_route(INFO, lambda: info, response_model=None)
    # Fonts of the system only; `theme.css` has the colours.
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    return gr.mount_gradio_app(
        app,
        layout.blocks,
        path="/",
        theme=gr.themes.Base(primary_hue="orange", neutral_hue="stone", **fonts),
        css=_own_file("app.css"),
        head=f"<style>{_own_file('theme.css')}</style><script>{_own_file('app.js')}</script>",
        footer_links=[],
        run_history=False,
        show_error=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
    )


def _own_file(name: str) -> str:
    return files("narrative_twins.app").joinpath(name).read_text(encoding="utf-8")


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
    raise OSError(
        f"can't use port {number} of {host} ({problem.strerror or problem}); choose another --port"
        " or --host"
    )

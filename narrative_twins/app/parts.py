"""Small pieces that the layouts of the web page are made of."""

from __future__ import annotations

import inspect
from typing import Any

from narrative_twins.app.page import Visitor


def html(gr: Any, value: str = "", **options: Any) -> Any:
    """A piece of HTML without gradio's own style."""
    return gr.HTML(value, apply_default_css=False, js_on_load=None, **options)


def handler(gr: Any, function: Any) -> Any:
    """An event handler that calls a function with the visitor first."""
    if inspect.isgeneratorfunction(function):

        def handle(request: Any, *values: Any) -> Any:
            yield from function(Visitor.of(request), *values)

    else:

        def handle(request: Any, *values: Any) -> Any:
            return function(Visitor.of(request), *values)

    # gradio passes the request to a parameter with this annotation.
    handle.__annotations__["request"] = gr.Request
    return handle


def set_busy(gr: Any, updates: dict[str, Any]) -> None:
    """Replace `busy` in updates of the page by those of the buttons `score` and `cancel`."""
    if "busy" in updates:
        busy = updates.pop("busy")
        updates["score"] = gr.update(interactive=not busy)
        updates["cancel"] = gr.update(visible=busy)

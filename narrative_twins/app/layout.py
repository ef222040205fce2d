"""The layout of the web page, in gradio."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from html import escape
from importlib.resources import files
from typing import Any

from narrative_twins.app.book_layout import book_input, book_results, connect_book_events
from narrative_twins.app.book_page import BookPage
from narrative_twins.app.endpoint import add_endpoint, parameters
from narrative_twins.app.guard import Checks
from narrative_twins.app.guide import guide
from narrative_twins.app.page import METHODS, Page, Parts, Visitor
from narrative_twins.app.parts import handler, html, set_busy
from narrative_twins.app.requests import MAX_CHARACTERS
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.stories.splitting import SPLITTERS

_OPEN = """<div class="ways"><label>Open a text file<input type="file" accept=".txt,.md,text/*" data-limit="{limit}">
</label><button type="button" id="example" data-story="{story}">Try an example</button></div>
<p class="problem" role="alert"></p>"""

_INTRODUCTION = """<header><h1>Narrative salience</h1><p>Which sentences of a story carry it?
The stronger the colour, the more salient the sentence.</p></header>"""
_INVITATION = """<p class="invitation">Paste a story and press <b>Score</b>, or Ctrl+Enter (on a Mac ⌘+Enter); or try
the example. The story is shown here in its own paragraphs, each sentence shaded by its salience.</p>"""
_LEGEND = """<p class="hint">The most salient fifth is underlined. Point at a sentence to see its scores, or move to the
text with the tab key and use the arrow keys. Colours range from the lowest score of the story to the highest.</p>"""

_FOLD = "<details><summary>Settings</summary></details>"

_SERVER_EVENTS = ("load", "unload")


def import_gradio() -> Any:
    """Import gradio, with its statistics off; raises `ModuleNotFoundError` if it is not
    installed."""
    if importlib.util.find_spec("gradio") is None:
        raise ModuleNotFoundError("the page needs gradio: pip install narrative_twins[demo]")
    # Otherwise it reports every page to its developers, and checks for updates.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    import gradio as gr

    return gr


def build_blocks(gr: Any, page: Page) -> Any:
    """The page as gradio blocks, whose events call `page`."""
    with gr.Blocks(title="Narrative salience", analytics_enabled=False) as blocks:
        html(gr, _INTRODUCTION)
        with gr.Row(elem_id="columns"):
            with gr.Column(elem_id="entry", min_width=280), gr.Tabs(elem_id="kinds"):
                with gr.Tab("A story"):
                    parts = _input_column(gr, page.any_encoder)
                with gr.Tab("A book"):
                    book = book_input(gr)
            with gr.Column(elem_id="reading", min_width=280):
                parts |= _results_column(gr)
                book |= book_results(gr)
                html(gr, guide(), elem_id="guide")
        _connect_events(gr, page, parts, book["results"])
        blocks.unload(handler(gr, page.cancel))
        add_endpoint(gr, page)
        connect_book_events(gr, BookPage(page), book, [parts["results"], parts["invitation"]])
    return blocks


def input_checks(gr: Any, blocks: Any) -> Checks:
    """For each event that a browser posts, by its number: whether each of its input values is one
    that the component can have. Events of the server itself are left out. The values of the
    endpoint are `parameters()`.
    """
    posted = {
        number: event
        for number, event in blocks.fns.items()
        if not any(trigger in _SERVER_EVENTS for _, trigger in event.targets)
    }
    return {
        number: (
            parameters()
            if event.api_visibility == "public"
            else [_check(gr, part) for part in event.inputs]
        )
        for number, event in posted.items()
    }


def _check(gr: Any, component: Any) -> Callable[[Any], bool]:
    """Whether a value is one that a browser sends for a component."""
    if isinstance(component, gr.State):
        return lambda value: value is None  # its value is kept by the server
    if isinstance(component, gr.CheckboxGroup):
        choices = [value for _, value in component.choices]
        return lambda value: isinstance(value, list) and all(choice in choices for choice in value)
    if isinstance(component, gr.Slider):
        return lambda value: type(value) in (int, float) and 0 <= value < 1_000_000
    if isinstance(component, (gr.Textbox, gr.Radio)):
        return lambda value: isinstance(value, str)
    raise TypeError(f"no check for {component!r}")


def _input_column(gr: Any, any_encoder: bool) -> dict[str, Any]:
    """The story and the settings, by name."""
    parts = {
        "text": gr.Textbox(
            label="Story",
            lines=10,
            max_lines=10,
            placeholder="Once upon a time …",
            elem_id="story",
            autoscroll=False,
        ),
        "open": html(
            gr, _OPEN.format(limit=4 * MAX_CHARACTERS, story=escape(_example())), elem_id="open"
        ),
    }
    with gr.Row():
        parts["score"] = gr.Button("Score", variant="primary", elem_id="score")
        parts["cancel"] = gr.Button("Cancel", visible=False, elem_id="cancel")
    parts["status"] = html(gr, elem_id="status")
    html(gr, _FOLD, elem_id="fold")
    with gr.Column(elem_id="settings"):
        parts |= _settings(gr, any_encoder)
    return parts


def _settings(gr: Any, any_encoder: bool) -> dict[str, Any]:
    names = list(OPERATIONS)
    parts = {
        "split": gr.Radio(
            list(SPLITTERS),
            value="sentences",
            label="Split the text into",
            info="Choose lines for verse. Lines and paragraphs are scored as sentences are.",
            elem_id="split",
        ),
        "operations": gr.CheckboxGroup(
            names, value=names, label="Operations", elem_id="operations"
        ),
    }
    with gr.Row():
        parts["windows"] = gr.Textbox(
            "auto", label="Windows", info="auto, a count, or sizes: 7, 7, 6", min_width=200
        )
        parts["method"] = gr.Radio(
            list(METHODS),
            value="exact",
            label="Scores",
            info="One pass is fast but approximate.",
            min_width=200,
        )
    if any_encoder:
        parts["encoder"] = gr.Textbox(
            label="Encoder", placeholder="default", info="folder or Hub id"
        )
    return parts


def _example() -> str:
    return (
        files("narrative_twins.app")
        .joinpath("haunted_stable.txt")
        .read_text(encoding="utf-8")
        .strip()
    )


def _results_column(gr: Any) -> dict[str, Any]:
    parts = {"token": gr.State(""), "invitation": html(gr, _INVITATION)}
    with gr.Column(visible=False, elem_id="results") as results:
        parts["operation"] = gr.Radio([], label="Shaded by", elem_id="operation")
        parts["advice"] = html(gr)
        parts["curve"] = html(gr, elem_id="curve")
        parts["shaded"] = html(gr, elem_id="shaded")
        html(gr, _LEGEND)
        parts["downloads"] = html(gr)
        parts["k"] = gr.Slider(
            1,
            5,
            5,
            step=1,
            label="Extract",
            info="the most salient sentences, in story order",
            elem_id="k",
            buttons=[],
        )
        parts["salient"] = html(gr, elem_id="salient")
    return parts | {"results": results}


def _connect_events(gr: Any, page: Page, parts: dict[str, Any], other: Any) -> None:
    """Connect the parts for stories to `page`; `other` is hidden when there are results."""

    def update(changes: Parts) -> dict[Any, Any]:
        found = {parts[name]: value for name, value in _updates(gr, changes).items()}
        return found | (
            {other: gr.update(visible=False)} if "shaded" in changes and "token" in changes else {}
        )

    def score(visitor: Visitor, *inputs: Any) -> Iterator[dict[Any, Any]]:
        yield from map(update, page.score(visitor, *inputs))

    def shade(*inputs: Any) -> dict[Any, Any]:
        return update(page.shade(*inputs))

    options = {"show_progress": "hidden", "api_visibility": "private"}
    inputs = [
        parts[name]
        for name in ("text", "operations", "windows", "method", "split", "encoder")
        if name in parts
    ]
    outputs = [part for name, part in parts.items() if name != "open"] + [other]
    # gradio has no limit here, since `ScoringQueue` scores one story at a time.
    parts["score"].click(
        handler(gr, score), inputs, outputs, concurrency_limit=None, trigger_mode="once", **options
    )
    parts["cancel"].click(handler(gr, page.cancel), **options)
    chosen = [parts[name] for name in ("token", "operation", "k")]
    shown = [parts[name] for name in ("advice", "curve", "shaded", "salient", "status")]
    # `input` and not `change`, which would draw everything again after each scoring.
    parts["operation"].input(shade, chosen, shown, trigger_mode="always_last", **options)
    parts["k"].input(shade, chosen, shown, trigger_mode="always_last", **options)


def _updates(gr: Any, changes: Parts) -> dict[str, Any]:
    """Changes of the page as gradio updates."""
    updates = dict(changes)
    set_busy(gr, updates)
    if "operation" in updates:
        names, chosen = updates["operation"]
        updates["operation"] = gr.update(choices=names, value=chosen)
        sentences, k = updates["k"]
        updates["k"] = gr.update(maximum=max(2, sentences), value=k)
        updates["results"], updates["invitation"] = (
            gr.update(visible=True),
            gr.update(visible=False),
        )
    return updates

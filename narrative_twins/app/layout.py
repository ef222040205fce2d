"""The layout of the web page, in gradio."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

from narrative_twins.app.endpoint import add_endpoint, parameters
from narrative_twins.app.guard import Checks
from narrative_twins.app.page import METHODS, Page, Parts, Visitor
from narrative_twins.app.queue import MAX_CHARACTERS
from narrative_twins.salience.operations import OPERATIONS

HEAD = """<script>
addEventListener("keydown", event => {
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (!step || !event.target.matches(".shaded .sentence")) return;
  const all = [...event.target.closest(".shaded").querySelectorAll(".sentence")];
  const next = all[all.indexOf(event.target) + step];
  event.preventDefault();
  if (next) { event.target.tabIndex = -1; next.tabIndex = 0; next.focus(); }
});
addEventListener("change", async event => {
  if (!event.target.matches("#open input")) return;
  const [file] = event.target.files, problem = document.querySelector("#open .problem");
  event.target.value = "";
  problem.textContent = "";
  if (!file) return;
  try {
    if (file.size > MAX_BYTES) throw new RangeError();
    const text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
    const area = document.querySelector("#story textarea");
    area.value = text;
    area.dispatchEvent(new Event("input", {bubbles: true}));
  } catch (error) {
    problem.textContent = error instanceof TypeError ? `${file.name} is not UTF-8 text.`
      : error instanceof RangeError ? `${file.name} is larger than MAX_BYTES bytes.` : `${file.name} can't be read.`;
  }
});
</script>""".replace("MAX_BYTES", str(4 * MAX_CHARACTERS))
"""Arrow keys move the focus between sentences, so that the tab key does not stop at each. Files are read by the browser
into the text field, so that the server has no endpoint that takes a file."""

_OPEN = """<label>Open a text file<input type="file" accept=".txt,.md,text/*"></label>
<p class="problem" role="alert"></p>"""

_INTRODUCTION = """<header><h1>Narrative salience</h1><p>Which sentences of a story carry it?
The deeper the colour, the more salient the sentence.</p></header>"""
_INVITATION = """<p class="invitation">Paste a story and press <b>Score</b>. It is shown here in its own paragraphs,
each sentence shaded by its salience.</p>"""
_LEGEND = """<p class="hint">The most salient fifth is underlined. Point at a sentence to see its scores, or move to the
text with the tab key and use the arrow keys. Colours range from the lowest score of the story to the highest.</p>"""

_SERVER_EVENTS = ("load", "unload")
_EARTH, _GREY, _SAND = "#8a3f08", "#64605a", "#efece4"
_COLOURS = {
    "body_background_fill": "#fbfaf7",
    "body_text_color": "#1b1b1f",
    "body_text_color_subdued": _GREY,
    "block_info_text_color": _GREY,
    "block_label_text_color": "#1b1b1f",
    "block_title_text_color": "#1b1b1f",
    "block_border_color": "#e4e0d6",
    "input_background_fill": "#fbfaf7",
    "input_border_color": "#cfc9bb",
    "input_border_width": "1px",
    "input_placeholder_color": _GREY,
    "button_primary_background_fill": _EARTH,
    "button_primary_background_fill_hover": "#6f3206",
    "button_primary_border_color": _EARTH,
    "button_primary_border_color_hover": "#6f3206",
    "button_primary_text_color": "#ffffff",
    "button_secondary_background_fill": _SAND,
    "button_secondary_text_color": "#1b1b1f",
    "checkbox_label_background_fill": _SAND,
    "checkbox_label_background_fill_hover": "#e4e0d6",
    "checkbox_label_background_fill_selected": _SAND,
    "checkbox_label_text_color": "#1b1b1f",
    "checkbox_label_text_color_selected": "#1b1b1f",
    "checkbox_background_color_selected": _EARTH,
    "checkbox_border_color_selected": _EARTH,
    "slider_color": _EARTH,
}


def import_gradio() -> Any:
    """Import gradio, with its statistics off; raises `ModuleNotFoundError` if it is not installed."""
    if importlib.util.find_spec("gradio") is None:
        raise ModuleNotFoundError("the page needs gradio: pip install narrative_twins[demo]")
    # Otherwise it reports every page to its developers, and checks for updates.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    import gradio as gr

    return gr


def theme(gr: Any) -> Any:
    """System fonts only, and the same colours in dark mode, since the shades need dark text on a light background."""
    sans, mono = ["system-ui", "sans-serif"], ["ui-monospace", "monospace"]
    base = gr.themes.Base(primary_hue="orange", neutral_hue="stone", font=sans, font_mono=mono).set(**_COLOURS)
    for name in [name for name in vars(base) if name.endswith("_dark")]:
        setattr(base, name, getattr(base, name.removesuffix("_dark")))
    return base


def build_blocks(gr: Any, page: Page) -> Any:
    """The page as gradio blocks, whose events call `page`."""
    with gr.Blocks(title="Narrative salience", analytics_enabled=False) as blocks:
        _html(gr, _INTRODUCTION)
        with gr.Row(elem_id="columns"):
            with gr.Column(elem_id="entry", min_width=280):
                parts = _input_column(gr, page.any_encoder)
            with gr.Column(elem_id="reading", min_width=280):
                parts |= _results_column(gr)
        _connect_events(gr, page, parts)
        blocks.unload(_handler(gr, page.cancel))
        add_endpoint(gr, page)
    return blocks


def input_checks(gr: Any, blocks: Any) -> Checks:
    """For each event that a browser posts, by its number: whether each of its input values is one that the component
    can have. Events of the server itself are left out. The values of the endpoint are `parameters()`."""
    posted = {
        number: event
        for number, event in blocks.fns.items()
        if not any(trigger in _SERVER_EVENTS for _, trigger in event.targets)
    }
    return {
        number: parameters() if event.api_visibility == "public" else [_check(gr, part) for part in event.inputs]
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
    names = list(OPERATIONS)
    parts = {
        "text": gr.Textbox(
            label="Story", lines=10, max_lines=10, placeholder="Once upon a time …", elem_id="story", autoscroll=False
        ),
        "open": _html(gr, _OPEN, elem_id="open"),
        "operations": gr.CheckboxGroup(names, value=names, label="Operations", elem_id="operations"),
    }
    with gr.Row():
        parts["windows"] = gr.Textbox("auto", label="Windows", info="auto, a count, or sizes: 7, 7, 6", min_width=200)
        parts["method"] = gr.Radio(
            list(METHODS), value="exact", label="Scores", info="One pass is fast but approximate.", min_width=200
        )
    if any_encoder:
        parts["encoder"] = gr.Textbox(label="Encoder", placeholder="default", info="folder or Hub id")
    with gr.Row():
        parts["score"] = gr.Button("Score", variant="primary", elem_id="score")
        parts["cancel"] = gr.Button("Cancel", visible=False, elem_id="cancel")
    parts["status"] = _html(gr, elem_id="status")
    return parts


def _results_column(gr: Any) -> dict[str, Any]:
    parts = {"token": gr.State(""), "invitation": _html(gr, _INVITATION)}
    with gr.Column(visible=False, elem_id="results") as results:
        parts["operation"] = gr.Radio([], label="Shaded by", elem_id="operation")
        parts["curve"] = _html(gr, elem_id="curve")
        parts["shaded"] = _html(gr, elem_id="shaded")
        _html(gr, _LEGEND)
        parts["downloads"] = _html(gr)
        parts["k"] = gr.Slider(1, 5, 5, step=1, label="The most salient sentences", elem_id="k", buttons=[])
        parts["salient"] = _html(gr)
    return parts | {"results": results}


def _connect_events(gr: Any, page: Page, parts: dict[str, Any]) -> None:
    def update(changes: Parts) -> dict[Any, Any]:
        return {parts[name]: value for name, value in _updates(gr, changes).items()}

    def score(visitor: Visitor, *inputs: Any) -> Iterator[dict[Any, Any]]:
        yield from map(update, page.score(visitor, *inputs))

    def shade(*inputs: Any) -> dict[Any, Any]:
        return update(page.shade(*inputs))

    options = {"show_progress": "hidden", "api_visibility": "private"}
    inputs = [parts[name] for name in ("text", "operations", "windows", "method", "encoder") if name in parts]
    outputs = [part for name, part in parts.items() if name != "open"]
    # gradio has no limit here, since `ScoringQueue` scores one story at a time.
    parts["score"].click(_handler(gr, score), inputs, outputs, concurrency_limit=None, trigger_mode="once", **options)
    parts["cancel"].click(_handler(gr, page.cancel), **options)
    chosen = [parts[name] for name in ("token", "operation", "k")]
    shown = [parts[name] for name in ("curve", "shaded", "salient", "status")]
    # `input` and not `change`, which would draw everything again after each scoring.
    parts["operation"].input(shade, chosen, shown, trigger_mode="always_last", **options)
    parts["k"].input(shade, chosen, shown, trigger_mode="always_last", **options)


def _updates(gr: Any, changes: Parts) -> dict[str, Any]:
    """Changes of the page as gradio updates."""
    updates = dict(changes)
    if "busy" in updates:
        busy = updates.pop("busy")
        updates["score"] = gr.update(interactive=not busy)
        updates["cancel"] = gr.update(visible=busy)
    if "operation" in updates:
        names, chosen = updates["operation"]
        updates["operation"] = gr.update(choices=names, value=chosen)
        sentences, k = updates["k"]
        updates["k"] = gr.update(maximum=max(2, min(sentences, 50)), value=k)
        updates["results"], updates["invitation"] = gr.update(visible=True), gr.update(visible=False)
    return updates


def _handler(gr: Any, function: Any) -> Any:
    """An event handler that calls a function with the visitor first."""
    if inspect.isgeneratorfunction(function):

        def handler(request: Any, *values: Any) -> Any:
            yield from function(Visitor.of(request), *values)
    else:

        def handler(request: Any, *values: Any) -> Any:
            return function(Visitor.of(request), *values)

    # gradio passes the request to a parameter with this annotation.
    handler.__annotations__["request"] = gr.Request
    return handler


def _html(gr: Any, value: str = "", **options: Any) -> Any:
    """A piece of HTML without gradio's own style."""
    return gr.HTML(value, apply_default_css=False, js_on_load=None, **options)

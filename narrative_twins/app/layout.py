"""How the web page is laid out, in gradio."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Iterator
from typing import Any

from narrative_twins.app.page import ONE_PASS, Page, Parts
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
</script>"""
"""Arrow keys go from sentence to sentence, so that tab need not stop at each."""

_INTRODUCTION = """<header><h1>Narrative salience</h1><p>Which sentences of a story carry it?
The deeper the colour, the more a sentence matters to its story.</p></header>"""
_NOTHING_YET = """<p class="invitation">Paste a story and press <b>Score</b>. It comes back here in its own paragraphs,
every sentence on the colour of its salience.</p>"""
_HOW_TO_READ = """<p class="hint">The most salient fifth is underlined. Point at a sentence for its scores, or tab to
the text and go by the arrow keys. Colours go from the lowest score of the story to the highest.</p>"""


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


def gradio() -> Any:
    """The library, told to keep to itself.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    if importlib.util.find_spec("gradio") is None:
        raise ModuleNotFoundError("the page needs gradio: pip install narrative_twins[demo]")
    # It tells its makers of every page otherwise, and asks them whether it is new.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    import gradio as gr

    return gr


def theme(gr: Any) -> Any:
    """Fonts of the system only; and one set of colours, since ink on shades is made for a light ground."""
    sans, mono = ["system-ui", "sans-serif"], ["ui-monospace", "monospace"]
    found = gr.themes.Base(primary_hue="orange", neutral_hue="stone", font=sans, font_mono=mono).set(**_COLOURS)
    for name in [name for name in vars(found) if name.endswith("_dark")]:
        setattr(found, name, getattr(found, name.removesuffix("_dark")))
    return found


def blocks(gr: Any, page: Page, any_encoder: bool) -> Any:
    """The page: its parts by name, and what they do.

    Args:
        gr: the library.
        page: what happens.
        any_encoder: whether there is a field for the name of an encoder.
    """
    # What gradio keeps of a file that is opened is gone within the hour if all else fails.
    with gr.Blocks(title="Narrative salience", analytics_enabled=False, delete_cache=(600, 3600)) as found:
        _html(gr, _INTRODUCTION)
        with gr.Row(elem_id="columns"):
            with gr.Column(elem_id="entry", min_width=280):
                parts = _entry(gr, any_encoder)
            with gr.Column(elem_id="reading", min_width=280):
                parts |= _reading(gr)
        _wire(gr, page, parts)
        found.unload(_of_session(gr, lambda session: page.cancel(session)))
    return found


def _entry(gr: Any, any_encoder: bool) -> dict[str, Any]:
    """Where a story and the settings are entered."""
    names = list(OPERATIONS)
    parts = {
        "text": gr.Textbox(
            label="Story", lines=10, max_lines=10, placeholder="Once upon a time …", elem_id="story", autoscroll=False
        ),
        "open": gr.UploadButton("Open a text file", file_count="single", size="sm", elem_id="open"),
        "operations": gr.CheckboxGroup(names, value=names, label="Operations", elem_id="operations"),
    }
    with gr.Row():
        parts["windows"] = gr.Textbox(
            "auto", label="Windows", info="auto, a count such as 5, or sizes such as 7, 7, 6", min_width=200
        )
        parts["how"] = gr.Radio(
            ["exact", ONE_PASS],
            value="exact",
            label="Scores",
            info="One pass is quick, and approximate.",
            min_width=200,
        )
    parts["encoder"] = gr.Textbox(
        label="Encoder", placeholder="the default one", info="a folder or Hub id", visible=any_encoder
    )
    with gr.Row():
        parts["score"] = gr.Button("Score", variant="primary", elem_id="score")
        parts["cancel"] = gr.Button("Cancel", visible=False, elem_id="cancel")
    parts["status"] = _html(gr, elem_id="status")
    return parts


def _reading(gr: Any) -> dict[str, Any]:
    """Where the results are read."""
    parts = {"token": gr.State(""), "invitation": _html(gr, _NOTHING_YET)}
    with gr.Column(visible=False, elem_id="results") as results:
        parts["operation"] = gr.Radio([], label="Shaded by", elem_id="operation")
        parts["curve"] = _html(gr, elem_id="curve")
        parts["shaded"] = _html(gr, elem_id="shaded")
        _html(gr, _HOW_TO_READ)
        parts["downloads"] = _html(gr)
        parts["k"] = gr.Slider(1, 5, 5, step=1, label="The most salient sentences", elem_id="k", buttons=[])
        parts["salient"] = _html(gr)
    return parts | {"results": results}


def _wire(gr: Any, page: Page, parts: dict[str, Any]) -> None:
    """What the parts do."""

    def changed(found: Parts) -> dict[Any, Any]:
        return {parts[name]: value for name, value in _updates(gr, found).items()}

    def scored(session: str, *entered: Any) -> Iterator[dict[Any, Any]]:
        yield from map(changed, page.score(session, *entered))

    def opened(path: str) -> dict[Any, Any]:
        return changed(page.open(path))

    def shaded(*chosen: Any) -> dict[Any, Any]:
        return changed(page.shade(*chosen))

    quiet = {"show_progress": "hidden", "api_visibility": "private"}
    entered = [parts[name] for name in ("text", "operations", "windows", "how", "encoder")]
    everything = [part for name, part in parts.items() if name != "open"]
    parts["open"].upload(opened, parts["open"], [parts["text"], parts["status"]], **quiet)
    # As many may wait as there are; the queue takes them one by one.
    parts["score"].click(
        _of_session(gr, scored), entered, everything, concurrency_limit=None, trigger_mode="once", **quiet
    )
    parts["cancel"].click(_of_session(gr, lambda session: page.cancel(session)), **quiet)
    chosen = [parts[name] for name in ("token", "operation", "k")]
    changing = [parts[name] for name in ("curve", "shaded", "salient", "status")]
    # Not `change`, which would draw all of it again after each scoring.
    parts["operation"].input(shaded, chosen, changing, trigger_mode="always_last", **quiet)
    parts["k"].input(shaded, chosen, changing, trigger_mode="always_last", **quiet)


def _updates(gr: Any, found: Parts) -> dict[str, Any]:
    """What changes, as gradio has it."""
    updates = dict(found)
    if "busy" in updates:
        busy = updates.pop("busy")
        updates["score"] = gr.update(interactive=not busy)
        updates["cancel"] = gr.update(visible=busy)
    if "operation" in updates:
        names, lead = updates["operation"]
        updates["operation"] = gr.update(choices=names, value=lead)
        most, k = updates["k"]
        updates["k"] = gr.update(maximum=max(2, min(most, 50)), value=k)
        updates["results"], updates["invitation"] = gr.update(visible=True), gr.update(visible=False)
    return updates


def _of_session(gr: Any, function: Any) -> Any:
    """A handler that is told whose page it is: gradio hands the request to what is annotated as one."""
    if inspect.isgeneratorfunction(function):

        def called(request: Any, *values: Any) -> Any:
            yield from function(request.session_hash, *values)
    else:

        def called(request: Any, *values: Any) -> Any:
            return function(request.session_hash, *values)

    called.__annotations__["request"] = gr.Request
    return called


def _html(gr: Any, value: str = "", **options: Any) -> Any:
    """A piece of HTML in the page's own style, not that of gradio."""
    return gr.HTML(value, apply_default_css=False, js_on_load=None, **options)

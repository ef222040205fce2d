"""The layout of the page for annotators, in gradio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import gradio as gr
from pydantic import Field

from narrative_twins.app.annotate import MAX_NAME, MAX_SENTENCES, MAX_SUMMARY, AnnotationPage
from narrative_twins.app.guard import Input
from narrative_twins.app.layout import Layout, plain_html, updates
from narrative_twins.app.page import Parts, part

_CHOICE = Annotated[int, Field(ge=1, le=MAX_SENTENCES)]
_LONGER = 10
"""How many times as long as it may be a text is received, so that the page can say so."""
INPUTS = {
    "name": Input(Annotated[str, Field(max_length=_LONGER * MAX_NAME)], "a name"),
    "annotator": Input(None, "nothing: its value is kept by the server"),
    "step": Input(None, "nothing: its value is kept by the server"),
    "summary": Input(Annotated[str, Field(max_length=_LONGER * MAX_SUMMARY)], "a summary"),
    "choice": Input(_CHOICE | None, "the number of a sentence"),
}
"""What a browser may send, by the name of the input."""


def build_annotation_layout(page: AnnotationPage) -> Layout:
    """The page for annotators as gradio blocks, whose events call `page`."""
    parts: dict[str, Any] = {}
    with gr.Blocks(title="Annotation of stories", analytics_enabled=False) as blocks:
        layout = Layout(blocks, INPUTS)
        with gr.Column(elem_id="annotation"):
            plain_html(part("annotation"))
            parts["annotator"], parts["step"] = gr.State(""), gr.State(None)
            with gr.Column() as parts["welcome"]:
                plain_html(part("guidelines"))
                label = "Your name or code"
                info = (
                    f"Any you like, up to {MAX_NAME} characters. To continue later, give the same."
                )
                parts["name"] = gr.Textbox(label=label, info=info, elem_id="name", max_lines=1)
                parts["begin"] = gr.Button("Begin", variant="primary")
                parts["welcome_status"] = plain_html()
            with gr.Column(visible=False) as parts["work"]:
                parts["story"] = plain_html()
                parts["summary"] = gr.Textbox(
                    label="Sum up the story in fewer than 12 words",
                    info="What a reader will remember most; give away how it turns out.",
                    max_lines=2,
                    elem_id="summary",
                )
                label = "Of the sentences that the summary uses, choose the most astonishing"
                parts["choice"] = gr.Radio([], label=label, elem_id="choice")
                parts["save"] = gr.Button("Save, and go on", variant="primary", elem_id="save")
                parts["status"] = plain_html(elem_id="status")
                plain_html(part("reminder"))
            with gr.Column(visible=False) as parts["end"]:
                plain_html(part("thanks"))

        def on(listen: Any, function: Callable[..., Parts], *names: str) -> None:
            def called(*values: Any) -> dict[Any, Any]:
                return updates(parts, function(*values))

            outputs = list(parts.values())
            layout.on(listen, called, parts, names, outputs=outputs, trigger_mode="once")

        on(parts["begin"].click, page.begin, "name")
        on(parts["name"].submit, page.begin, "name")
        on(parts["save"].click, page.answer, "annotator", "step", "summary", "choice")
    return layout

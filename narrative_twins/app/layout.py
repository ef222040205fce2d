"""The layout of the web page, in gradio, and its endpoint `/score` for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Annotated, Any, Literal

import gradio as gr
from pydantic import Field

from narrative_twins.app.guard import Input
from narrative_twins.app.page import SHARE, Page, Parts, Visitor, part
from narrative_twins.app.queue import (
    MAX_BOOK,
    MAX_CHARACTERS,
    METHODS,
    ONE_PASS,
    Method,
    book_suffixes,
)
from narrative_twins.salience.books.result import LEVELS, Level
from narrative_twins.salience.operations import OPERATIONS, resolve_operations
from narrative_twins.salience.options import SCORING_OPTIONS
from narrative_twins.stories.sentences import SplitName

SCORE = "score"
"""The name of the endpoint."""
STORY = ("text", "operations", "windows", "method", "split")
"""What the endpoint takes, in order. It takes no encoder, which could be a path."""
SPLITS = SCORING_OPTIONS["splitter"].choices
_METHOD_INFO = (
    "One pass reads the text once, and its scores are approximate. Exact scores can take a hundred"
    " times as long."
)
_RETURNED = (
    "sentences, spans (of characters), windows (of sentences), scores (by operation, one for each"
    " sentence), truncated, context_tokens, cut_tokens, approximate, dtype"
)


def inputs_by_name() -> dict[str, Input]:
    """What a browser or program may send, by the name of the input."""
    number = Annotated[float, Field(ge=0, lt=1_000_000, allow_inf_nan=False)]
    names: Any = list[Literal[tuple(OPERATIONS)]]  # type: ignore[misc]
    operations = Annotated[names, Field(max_length=len(OPERATIONS))] | None
    return {
        "text": Input(str, "the story as plain text"),
        "operations": Input(
            operations,
            f"a list of some of {', '.join(OPERATIONS)}; or null for all that the method has",
        ),
        "windows": Input(str, "text: auto, a count such as 5, or sizes such as 7, 7, 6"),
        "method": Input(Method, f"{' or '.join(METHODS)}; one pass is fast and approximate"),
        "split": Input(SplitName, f"what is scored: {', '.join(SPLITS)}"),
        "encoder": Input(str, "the folder or Hub id of an encoder"),
        "token": Input(None, "nothing: its value is kept by the server"),
        "operation": Input(str, "the operation that shades"),
        "k": Input(number, "a number of sentences"),
        "book": Input(str, "the name of a file, and on the next line its content in base64"),
        "levels": Input(list[Level], f"a list of some of {', '.join(LEVELS)}"),
        "share": Input(number, "a percentage"),
    }


@dataclass
class Layout:
    """The page as gradio blocks.

    Attributes:
        blocks: the blocks.
        inputs: what a browser or program may send, by the name of the input.
        events: the inputs of the events that may be posted, by their numbers.
        endpoint: the number of the event of the endpoint.
    """

    blocks: gr.Blocks
    inputs: Mapping[str, Input]
    events: dict[int, dict[str, Input]] = field(default_factory=dict)
    endpoint: int = -1

    def allow(self, event: Any, names: Sequence[str]) -> int:
        """Allow an event to be posted with these inputs; returns its number."""
        self.events[event["id"]] = {name: self.inputs[name] for name in names}
        return int(event["id"])

    def on(
        self,
        listen: Any,
        function: Callable[..., Any],
        parts: Mapping[str, Any],
        names: Sequence[str],
        **options: Any,
    ) -> None:
        """Call a function with the values of these parts of the page at an event."""
        options |= {"show_progress": "hidden", "api_visibility": "private"}
        self.allow(listen(function, [parts[name] for name in names], **options), names)


def updates(parts: Mapping[str, Any], changes: Parts) -> dict[Any, Any]:
    """Changes of parts of the page, as gradio takes them."""
    return {
        parts[name]: gr.update(**value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }


def build_layout(page: Page) -> Layout:
    """The page as gradio blocks, whose events call `page`."""
    with gr.Blocks(title="Narrative salience", analytics_enabled=False) as blocks:
        layout = Layout(blocks, inputs_by_name())
        plain_html(part("introduction"))
        with gr.Row(elem_id="columns"):
            with gr.Column(elem_id="entry", min_width=280), gr.Tabs(elem_id="kinds"):
                with gr.Tab("A story"):
                    story = _story_input(page)
                with gr.Tab("A book"):
                    book = _book_input(page.queue.max_sentences)
            with gr.Column(elem_id="reading", min_width=280):
                _add_story_results(story)
                _add_book_results(book)
                plain_html(part("guide", OPERATIONS), elem_id="guide")
        story["others"] = book["results"]
        book |= {"others": story["results"], "invitation": story["invitation"]}

        inputs = [name for name in (*STORY, "encoder") if name in story]
        _connect(layout, page, story, page.score, inputs, page.shade, ["operation", "k"])
        inputs = ["book", "levels", "method"]
        _connect(layout, page, book, page.score_book, inputs, page.extract, ["share"])
        blocks.unload(_cancelling(page))
        _add_endpoint(layout, page)
    return layout


def _connect(
    layout: Layout,
    page: Page,
    parts: dict[str, Any],
    score: Callable[..., Iterator[Parts]],
    inputs: Sequence[str],
    refresh: Callable[..., Parts],
    settings: Sequence[str],
) -> None:
    """Connect the parts for stories or for books to the page.

    Args:
        score: called with the visitor and `inputs` when the button is pressed; yields changes.
        refresh: called with the token of a result and `settings`, which say how it is shown, when a
            visitor changes one of these; returns changes.
    """

    # gradio passes the request to a parameter with this annotation.
    def scored(request: gr.Request, *values: Any) -> Iterator[dict[Any, Any]]:
        named = dict(zip(inputs, values, strict=True))
        for changes in score(_visitor(request), **named):
            yield updates(parts, changes)

    def refreshed(*values: Any) -> dict[Any, Any]:
        return updates(parts, refresh(*values))

    outputs = list(parts.values())
    # gradio has no limit here, since `ScoringQueue` scores one story at a time.
    options = {"outputs": outputs, "concurrency_limit": None, "trigger_mode": "once"}
    layout.on(parts["score"].click, scored, parts, inputs, **options)
    layout.on(parts["cancel"].click, _cancelling(page), parts, [])
    options = {"outputs": outputs, "trigger_mode": "always_last"}
    for name in settings:
        # `input` and not `change`, which would draw everything again after each scoring.
        layout.on(parts[name].input, refreshed, parts, ["token", *settings], **options)


def _cancelling(page: Page) -> Callable[[gr.Request], None]:
    def cancel(request: gr.Request) -> None:
        page.cancel(_visitor(request))

    return cancel


def _visitor(request: gr.Request) -> Visitor:
    address = request.client.host if request.client else ""
    return Visitor(address, str(request.session_hash))


def plain_html(value: str = "", **options: Any) -> gr.HTML:
    """A piece of HTML without gradio's own style."""
    return gr.HTML(value, apply_default_css=False, js_on_load=None, **options)


def _add_buttons(parts: dict[str, Any], suffix: str = "") -> None:
    """Add the buttons that start and stop the scoring, and its status; their ids end in
    `suffix`."""
    with gr.Row():
        parts["score"] = gr.Button("Score", variant="primary", elem_id=f"score{suffix}")
        parts["cancel"] = gr.Button("Cancel", visible=False, elem_id=f"cancel{suffix}")
    parts["status"] = plain_html(elem_id=f"{suffix[1:]}-status" if suffix else "status")


def _story_input(page: Page) -> dict[str, Any]:
    """The story and the settings, by name."""
    example = files("narrative_twins.app").joinpath("haunted_stable.txt").read_text("utf-8")
    parts: dict[str, Any] = {}
    parts["text"] = gr.Textbox(
        label="Story",
        placeholder="Once upon a time …",
        elem_id="story",
        lines=10,
        max_lines=10,
        autoscroll=False,
    )
    plain_html(part("open_story", 4 * MAX_CHARACTERS, example.strip()), elem_id="open")
    _add_buttons(parts)
    plain_html(part("fold"), elem_id="fold")
    with gr.Column(elem_id="settings"):
        parts["split"] = gr.Radio(
            list(SPLITS),
            value=SPLITS[0],
            label="Split the text into",
            info="Choose lines for verse. Lines and paragraphs are scored like sentences.",
            elem_id="split",
        )
        chosen = resolve_operations(one_pass=page.method == ONE_PASS)
        parts["operations"] = gr.CheckboxGroup(
            list(OPERATIONS),
            value=[operation.name for operation in chosen],
            label="Operations",
            elem_id="operations",
        )
        with gr.Row():
            parts["windows"] = gr.Textbox(
                SCORING_OPTIONS["windows"].default,
                label="Windows",
                info="auto, a count, or sizes: 7, 7, 6",
                min_width=200,
            )
            parts["method"] = gr.Radio(
                list(METHODS), value=page.method, label="Scores", info=_METHOD_INFO, min_width=200
            )
        if page.any_encoder:
            info = "folder or Hub id"
            parts["encoder"] = gr.Textbox(label="Encoder", placeholder="default", info=info)
    return parts


def _add_story_results(parts: dict[str, Any]) -> None:
    parts |= {"token": gr.State(""), "invitation": plain_html(part("invitation"))}
    with gr.Column(visible=False, elem_id="results") as parts["results"]:
        parts["operation"] = gr.Radio([], label="Shaded by", elem_id="operation")
        parts["advice"] = plain_html()
        parts["curve"] = plain_html(elem_id="curve")
        parts["shaded"] = plain_html(elem_id="shaded")
        plain_html(part("legend"))
        parts["downloads"] = plain_html()
        info = "the most salient sentences, in story order"
        parts["k"] = gr.Slider(1, 5, 5, step=1, label="Extract", info=info, elem_id="k", buttons=[])
        parts["salient"] = plain_html(elem_id="salient")


def _book_input(max_sentences: int) -> dict[str, Any]:
    """The book and its settings, by name."""
    plain_html(part("open_book", MAX_BOOK, book_suffixes()), elem_id="open-book")
    # The browser puts the file here; it is hidden by the style sheet.
    parts: dict[str, Any] = {"book": gr.Textbox(label="Book", elem_id="book", lines=2, max_lines=2)}
    _add_buttons(parts, "-book")
    levels = list(LEVELS)
    parts["levels"] = gr.CheckboxGroup(levels, value=levels, label="Levels", elem_id="levels")
    parts["method"] = gr.Radio(
        list(METHODS), value=ONE_PASS, label="Scores of sentences", info=_METHOD_INFO
    )
    plain_html(part("limits_of_books", MAX_BOOK, max_sentences))
    return parts


def _add_book_results(parts: dict[str, Any]) -> None:
    parts["token"] = gr.State("")
    with gr.Column(visible=False, elem_id="book-results") as parts["results"]:
        parts["downloads"] = plain_html()
        parts["contents"] = plain_html(elem_id="contents")
        info = "of the sentences, in their order"
        parts["share"] = gr.Slider(
            1, 50, SHARE, step=1, label="Extract (%)", info=info, elem_id="share", buttons=[]
        )
        parts["extract"] = plain_html(elem_id="book-extract")


def _add_endpoint(layout: Layout, page: Page) -> None:
    """Add the endpoint to the blocks that are being built."""

    def score(
        request: gr.Request,
        text: str,
        operations: Any = None,
        windows: str = "auto",
        method: Any = page.method,
        split: Any = SPLITS[0],
    ) -> Iterator[dict[str, Any]]:
        story = dict(zip(STORY, (text, operations, windows, method, split), strict=True))
        try:
            yield from page.score_data(_visitor(request), **story)
        except ValueError as error:
            raise gr.Error(str(error), print_exception=False) from None

    # Types that gradio reports to clients.
    types = {name: found.type for name, found in layout.inputs.items() if name in STORY}
    score.__annotations__ = {"request": gr.Request, **types, "return": dict[str, Any]}
    about = (
        "Score a story: the salience of every sentence, by each operation. Until the story is"
        " scored, steps with phase, share and seconds_left are sent; the last one is the result."
    )
    event = gr.api(score, api_name=SCORE, api_description=about, concurrency_limit=None)
    layout.endpoint = layout.allow(event, STORY)


def endpoint_info(layout: Layout) -> dict[str, Any]:
    """What gradio tells clients of the endpoint, with the descriptions of its parameters and of
    what it returns."""
    info: dict[str, Any] = layout.blocks.get_api_info()
    endpoint = info["named_endpoints"][f"/{SCORE}"]
    described = [(name, found.about) for name, found in layout.events[layout.endpoint].items()]
    values = [*endpoint["parameters"], *endpoint["returns"]]
    for value, (label, about) in zip(values, [*described, ("salience", _RETURNED)], strict=True):
        value["label"], value["python_type"]["description"] = label, about
    return info

"""The page for scoring in gradio: its parts, its events, and the endpoint `/score` for programs."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import gradio as gr
from fastapi import HTTPException
from fastapi.responses import StreamingResponse

from narrative_twins.app.result_html import book_reading, downloads, part, story_reading
from narrative_twins.app.scoring import ERRORS, METHODS, ONE_PASS, Method, Scoring, book_suffixes
from narrative_twins.books.table import LEVELS
from narrative_twins.salience.operations import OPERATIONS, resolve_operations
from narrative_twins.salience.result import StorySalience
from narrative_twins.salience.wording import precision
from narrative_twins.show.formats import FORMATS, write_results
from narrative_twins.stories.sentences import SPLITTERS
from narrative_twins.text import one_line

EXAMPLE = files("narrative_twins.app").joinpath("haunted_stable.txt").read_text("utf-8").strip()
MAX_WAITING = 32  # stories and books of all clients
_NO_RESULT = "These results are no longer stored; score the text again."
_PROGRESS = gr.Progress()


class ScoringPage:
    """The page for scoring, as gradio blocks (`blocks`), with functions for downloads (`routes`).

    Args:
        scoring: scores the stories and books.
        method: how stories are scored by default.
    """

    def __init__(self, scoring: Scoring, method: Method = "one pass") -> None:
        self.scoring, self.method = scoring, method
        self.routes: dict[str, Any] = {"/download/{name}": self.download}
        # Books that were opened are deleted when they are an hour old.
        settings: Any = {"analytics_enabled": False, "delete_cache": (600, 3600)}
        with gr.Blocks(title="Narrative salience", **settings) as self.blocks:
            html(part("introduction"))
            with gr.Row(elem_id="columns"):
                with gr.Column(elem_id="entry", min_width=280), gr.Tabs():
                    with gr.Tab("A story"):
                        self._add_story_input()
                    with gr.Tab("A book"):
                        self._add_book_input()
                with gr.Column(elem_id="reading", min_width=280):
                    self.status = html(elem_id="status")
                    self.cancel = gr.Button("Cancel", size="sm")
                    self.key = gr.State("")
                    self.operation = gr.Radio([], label="Shaded by", visible=False)
                    self.result = html(part("invitation"), elem_id="result")
                    html(part("guide", OPERATIONS), elem_id="guide")
            self._add_events()
            self._add_endpoint()
        self.blocks.queue(default_concurrency_limit=1, max_size=MAX_WAITING)

    def _add_story_input(self) -> None:
        """Add the text box, the buttons and the settings for a story."""
        self.text = gr.Textbox(
            label="Story",
            placeholder="Once upon a time …",
            lines=10,
            max_lines=10,
            autoscroll=False,
            elem_id="story",
        )
        with gr.Row():
            self.score = gr.Button("Score", variant="primary", elem_id="score")
            self.example = gr.Button("Try an example")
        with gr.Accordion("Settings", open=False):
            splits = list(SPLITTERS)
            info = "Choose lines for verse. Lines and paragraphs are scored like sentences."
            self.split = gr.Radio(splits, value=splits[0], label="Split the text into", info=info)
            names = [each.name for each in resolve_operations(one_pass=self.method == ONE_PASS)]
            self.operations = gr.CheckboxGroup(list(OPERATIONS), value=names, label="Operations")
            info = "auto, a count, or sizes: 7, 7, 6"
            self.windows = gr.Textbox("auto", label="Windows", info=info)
            self.story_method = self._add_method("Scores", self.method)

    def _add_book_input(self) -> None:
        """Add the file, the button and the settings for a book."""
        self.book = gr.File(label="Book", file_types=list(book_suffixes()), elem_id="book")
        self.score_book = gr.Button("Score the book", variant="primary", elem_id="score-book")
        self.levels = gr.CheckboxGroup(list(LEVELS), value=list(LEVELS), label="Levels")
        self.book_method = self._add_method("Scores of sentences", ONE_PASS)
        html(part("hint", "Up to 10 MB. A novel takes minutes in one pass."))

    def _add_method(self, label: str, method: str) -> gr.Radio:
        """Add a choice between one pass and exact scores, preset to `method`, and return it."""
        info = (
            "One pass is approximate. Exact scores can take a hundred times as long, and are for"
            f" texts of up to {self.scoring.max_sentences:,} sentences here."
        )
        return gr.Radio(list(METHODS), value=method, label=label, info=info)

    def _add_events(self) -> None:
        """Connect the components with the methods that their events call."""
        private: Any = {"api_visibility": "private"}
        story = [self.text, self.operations, self.windows, self.story_method, self.split]
        book = [self.book, self.levels, self.book_method]
        shown = [self.status, self.key, self.operation, self.result]
        filled = self.example.click(lambda: EXAMPLE, None, self.text, **private)
        # Events of the same id wait for each other.
        waiting: Any = {"concurrency_id": "encoder", "show_progress_on": self.status, **private}
        scored = [self.score_book.click(self.book_scored, book, shown, **waiting)]
        for listen in (self.score.click, self.text.submit, filled.then):
            scored.append(listen(self.story_scored, story, shown, **waiting))
        self.cancel.click(self.cancelled, None, self.status, cancels=scored, **private)
        self.blocks.unload(self.cancelled)
        # `input` and not `change`, which would draw everything again after each scoring.
        values, shaded = [self.key, self.operation], [self.status, self.result]
        self.operation.input(self.shade, values, shaded, trigger_mode="always_last", **private)

    def _add_endpoint(self) -> None:
        """Add the endpoint `/score`, a function whose types gradio reports to clients."""

        def score(
            request: gr.Request,
            text: str,
            operations: list[str] | None = None,
            windows: str = "auto",
            method: Method = self.method,
            split: str = "sentences",
        ) -> dict[str, Any]:
            values = text, operations, windows, method, split
            try:
                result = self.scoring.score_story(str(request.session_hash), _PROGRESS, *values)
            except ERRORS as error:
                raise gr.Error(sentence(error), print_exception=False) from None
            return result.json()

        about = "Score a story: the salience of every sentence, by each operation."
        gr.api(score, api_name="score", api_description=about, concurrency_id="encoder")

    def story_scored(
        self, request: gr.Request, progress: gr.Progress = _PROGRESS, *values: Any
    ) -> dict[Any, Any]:
        """Score a story; `values` are the last arguments of `Scoring.score_story`. Return the
        changes of the page: for each component a new value, or a `gr.update` of its properties."""
        return self._scored(self.scoring.score_story, request, progress, values)

    def book_scored(
        self, request: gr.Request, progress: gr.Progress = _PROGRESS, *values: Any
    ) -> dict[Any, Any]:
        """Score a book, and return the changes of the page; `values`: see `Scoring.score_book`."""
        return self._scored(self.scoring.score_book, request, progress, values)

    def _scored(
        self, score: Any, request: gr.Request, progress: gr.Progress, values: Any
    ) -> dict[Any, Any]:
        """Call `score`, a method of `Scoring`. Return changes that show the result or the error."""
        try:
            result = score(str(request.session_hash), progress, *values)
        except ERRORS as error:
            return {self.status: part("problem", sentence(error))}
        key, notes = self.scoring.keep(result), [f"{result.extent}."]
        if isinstance(result, StorySalience):
            names, operation = list(result.scores), result.primary_operation
            notes += [*result.notes, *precision(result.dtype)]
            changes = self.shade(key, operation)
            changes[self.operation] = gr.update(choices=names, value=operation, visible=True)
        else:
            changes = {self.result: book_reading(result, key)}
            changes[self.operation] = gr.update(visible=False)
        return {**changes, self.key: key, self.status: part("status", " ".join(notes))}

    def shade(self, key: str, operation: str) -> dict[Any, Any]:
        """Return changes of the page that show the story whose result has the `key`, shaded by an
        operation; or a message, if there is no such result or it has no such operation."""
        result = self.scoring.results.get(key)
        if not isinstance(result, StorySalience) or operation not in result.scores:
            return {self.status: part("problem", _NO_RESULT)}
        return {self.result: story_reading(result, operation, key)}

    def cancelled(self, request: gr.Request) -> str:
        """Stop the scoring for the client of a request, and return a message as HTML."""
        self.scoring.cancel(str(request.session_hash))
        return part("status", "Cancelled.")

    def download(self, name: str) -> StreamingResponse:
        """Return a result as a file. `name` is the key of the result, a dot and the format."""
        key, _, form = name.rpartition(".")
        result = self.scoring.results.get(key)
        if result is None or form not in downloads(result):
            raise HTTPException(404, _NO_RESULT)
        pieces = write_results([result] if isinstance(result, StorySalience) else result, form)
        headers = {"Content-Disposition": f"attachment; filename=salience.{form}"}
        return StreamingResponse(pieces, media_type=FORMATS[form].media_type, headers=headers)


def html(value: str = "", **options: Any) -> gr.HTML:
    """Return a component for HTML, without gradio's own style and script."""
    return gr.HTML(value, apply_default_css=False, js_on_load=None, **options)


def sentence(error: Exception) -> str:
    """Return the message of an error as a sentence on one line, with a capital and a full stop."""
    text = one_line(error) or type(error).__name__
    return text[0].upper() + text[1:] + "." * text[-1].isalnum()

"""The page for scoring in gradio: its parts, its events, and the endpoint `/score` for programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import gradio as gr
from fastapi import HTTPException
from fastapi.responses import StreamingResponse

from narrative_twins.app.result_html import downloads, part, reading
from narrative_twins.app.scoring import (
    CANCELLED,
    ERRORS,
    METHODS,
    ONE_PASS,
    Job,
    Method,
    Scoring,
    book_suffixes,
)
from narrative_twins.books.table import LEVELS
from narrative_twins.salience.operations import OPERATIONS, resolve_operations
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import FORMATS, write_results
from narrative_twins.stories.sentences import SPLITTERS
from narrative_twins.text import counted, one_line

EXAMPLE = files("narrative_twins.app").joinpath("haunted_stable.txt").read_text("utf-8").strip()
MAX_WAITING = 32  # stories and books of all clients
INTERVAL = 0.5  # seconds between two reports of progress
_NO_RESULT = "These results are no longer stored; score the text again."
_PROGRESS = gr.Progress()


@dataclass
class Panel:
    """The parts of the page for one kind of text, a story or a book, with its own result.

    Attributes:
        name: `"story"` or `"book"`.
        status: what is happening, or what is wrong.
        cancel: the button that is shown while the text waits or is scored.
        result: the result as HTML; before the first one, how to begin.
        score: the button that begins the scoring.
    """

    name: str
    status: gr.HTML
    cancel: gr.Button
    result: gr.HTML
    score: gr.Button


class ScoringPage:
    """The page for scoring, as gradio blocks (`blocks`), with functions for downloads (`routes`).

    Args:
        scoring: scores the stories and books.
        method: how stories are scored by default.
    """

    def __init__(self, scoring: Scoring, method: Method = "one pass") -> None:
        self.scoring, self.method = scoring, method
        self.language = " in English" if scoring.encoder.is_english else ""
        self.routes: dict[str, Any] = {"/download/{name}": self.download}
        # Books that were opened are deleted when they are an hour old.
        settings: Any = {"analytics_enabled": False, "delete_cache": (600, 3600)}
        with gr.Blocks(title="Narrative salience", **settings) as self.blocks:
            html(part("introduction"))
            with gr.Tabs():
                with gr.Tab("A story"), gr.Row(elem_classes="columns"):
                    self.story = self._add_story()
                with gr.Tab("A book"), gr.Row(elem_classes="columns"):
                    self.book = self._add_book()
            html(part("guide", OPERATIONS), elem_id="guide")
            self._add_endpoint()
            self.blocks.unload(self.left)
        self.blocks.queue(default_concurrency_limit=MAX_WAITING, max_size=MAX_WAITING)

    def _add_story(self) -> Panel:
        """Add the text box, the buttons, the settings and the result of a story."""
        with gr.Column(elem_classes="entry", min_width=280):
            text = gr.Textbox(
                label=f"Story{self.language}",
                placeholder="Once upon a time …",
                lines=10,
                max_lines=10,
                autoscroll=False,
                elem_id="story",
            )
            with gr.Row():
                score = gr.Button("Score", variant="primary", elem_id="score")
                example = gr.Button("Try an example")
            status, cancel = self._add_status()
            with gr.Accordion("Settings", open=False):
                splits = list(SPLITTERS)
                info = "Choose lines for verse. Lines and paragraphs are scored like sentences."
                split = gr.Radio(splits, value=splits[0], label="Split the text into", info=info)
                info = (
                    "The code of another language than English, such as de, by which sentences end."
                )
                language = gr.Textbox(label="Language", info=info, max_lines=1)
                names = [each.name for each in resolve_operations(one_pass=self.method == ONE_PASS)]
                operations = gr.CheckboxGroup(list(OPERATIONS), value=names, label="Operations")
                info = "auto, a count, or sizes: 7, 7, 6"
                windows = gr.Textbox("auto", label="Windows", info=info)
                method = self._add_method("Scores", self.method)
        panel = Panel("story", status, cancel, self._add_result("story"), score)
        filled = example.click(lambda: EXAMPLE, None, text, api_visibility="private")
        values = [text, operations, windows, method, split, language]
        self._connect(
            panel, self.scoring.score_story, values, [score.click, text.submit, filled.then]
        )
        self.operations, self.story_method = operations, method
        return panel

    def _add_book(self) -> Panel:
        """Add the file, the button, the settings and the result of a book."""
        with gr.Column(elem_classes="entry", min_width=280):
            book = gr.File(
                label=f"Book{self.language}", file_types=list(book_suffixes()), elem_id="book"
            )
            kinds = ", ".join(book_suffixes())
            html(part("hint", f"Up to 10 MB: {kinds}. A novel takes a minute or two in one pass."))
            score = gr.Button(
                "Score the book", variant="primary", elem_id="score-book", interactive=False
            )
            status, cancel = self._add_status()
            with gr.Accordion("Settings", open=False):
                levels = gr.CheckboxGroup(list(LEVELS), value=list(LEVELS), label="Levels")
                method = self._add_method("Scores of sentences", ONE_PASS)
        panel = Panel("book", status, cancel, self._add_result("book"), score)
        self._connect(panel, self.scoring.score_book, [book, levels, method], [score.click])
        has_file: Any = {"js": "file => ({__type__: 'update', interactive: Boolean(file)})"}
        book.change(None, book, score, api_visibility="private", **has_file)
        return panel

    def _add_method(self, label: str, method: str) -> gr.Radio:
        """Add a choice between one pass and exact scores, preset to `method`, and return it."""
        info = (
            "One pass is approximate. Exact scores can take a hundred times as long, and are for"
            f" texts of up to {self.scoring.max_sentences:,} sentences here."
        )
        return gr.Radio(list(METHODS), value=method, label=label, info=info)

    def _add_status(self) -> tuple[gr.HTML, gr.Button]:
        """Add what is happening, and the button to cancel it."""
        return html(elem_classes="state"), gr.Button("Cancel", size="sm", visible=False)

    def _add_result(self, name: str) -> gr.HTML:
        """Add the place of the result of a panel, which says how to begin."""
        with gr.Column(elem_classes="reading", min_width=280):
            return html(part("invitation", name), elem_classes="result", elem_id=f"{name}-result")

    def _connect(
        self, panel: Panel, score: Callable[..., Job], values: list[Any], listeners: list[Any]
    ) -> None:
        """Score the `values` of a panel by `score`, at the events of the `listeners`."""

        async def scored(request: gr.Request, *values: Any) -> AsyncIterator[dict[Any, Any]]:
            """Yield the changes of the page while a text is scored, and when it is."""
            job = score(f"{request.session_hash} {panel.name}", *values)
            async for changes in self.changes(panel, job):
                yield changes

        def cancelled(request: gr.Request) -> None:
            """Cancel the scoring of the panel for the client of a request."""
            self.scoring.cancel(f"{request.session_hash} {panel.name}")

        private: Any = {"api_visibility": "private"}
        shown = [panel.status, panel.cancel, panel.result]
        for listen in listeners:
            name = f"{panel.name}_scored"
            listen(scored, values, shown, api_name=name, show_progress="hidden", **private)
        # Otherwise the focus would be lost with the button.
        focus = f"() => document.getElementById('{panel.score.elem_id}').focus()"
        panel.cancel.click(cancelled, show_progress="hidden", js=focus, queue=False, **private)

    def _add_endpoint(self) -> None:
        """Add the endpoint `/score`, a function whose types gradio reports to clients."""

        async def score(
            request: gr.Request,
            text: str,
            operations: list[str] | None = None,
            windows: str = "auto",
            method: Method = self.method,
            split: str = "sentences",
        ) -> dict[str, Any]:
            values = text, operations, windows, method, split
            job = self.scoring.score_story(str(request.session_hash), *values)
            while not job.is_done:
                _PROGRESS(job.share)
                await asyncio.sleep(INTERVAL / 10)
            try:
                result: StorySalience = job.result()
            except ERRORS as error:
                raise gr.Error(sentence(error), print_exception=False) from None
            return result.json()

        about = "Score a story: the salience of every sentence, by each operation."
        gr.api(score, api_name="score", api_description=about)

    async def changes(self, panel: Panel, job: Job) -> AsyncIterator[dict[Any, Any]]:
        """Yield the changes of a panel while a job waits and is done, and at last those that show
        its result or its error: for each component a new value, or a `gr.update` of its
        properties."""
        is_shown, waited = False, 0.0
        while not job.is_done:
            await asyncio.sleep(INTERVAL / 10)
            waited += INTERVAL / 10
            if waited >= INTERVAL:
                waited, begun = 0.0, {} if is_shown else {panel.result: part("coming")}
                is_shown = True
                now = part("progress", *progress(job, self.scoring.ahead(job)))
                yield {**begun, panel.cancel: gr.update(visible=True), panel.status: now}
        end = {panel.cancel: gr.update(visible=False)}
        try:
            result = job.result()
        except Exception as error:
            is_wanted = str(error) == CANCELLED
            told = part("status", "Cancelled.") if is_wanted else part("problem", sentence(error))
            back = {panel.result: part("invitation", panel.name)} if is_shown else {}
            yield {**end, **back, panel.status: told}
            if not isinstance(error, ERRORS):
                raise  # It is a fault of the program, for the log.
            return
        # Other clients are served meanwhile.
        shown = await asyncio.to_thread(self.shown, panel, result)
        yield {**end, **shown}

    def shown(self, panel: Panel, result: Any) -> dict[Any, Any]:
        """Return the changes that show a result."""
        key, is_english = self.scoring.keep(result), self.scoring.encoder.is_english
        return {
            panel.status: part("done", result.extent, f"{panel.name}-result"),
            panel.result: reading(result, key, is_english),
        }

    def left(self, request: gr.Request) -> None:
        """Cancel all that is scored for a client that has closed the page."""
        for panel in (self.story, self.book):
            self.scoring.cancel(f"{request.session_hash} {panel.name}")

    def download(self, name: str) -> StreamingResponse:
        """Return a result as a file. `name` is the key of the result, a dot and the format."""
        key, _, form = name.rpartition(".")
        result = self.scoring.results.get(key)
        if result is None or form not in downloads(result):
            raise HTTPException(404, _NO_RESULT)
        pieces = write_results([result] if isinstance(result, StorySalience) else result, form)
        headers = {"Content-Disposition": f"attachment; filename=salience.{form}"}
        return StreamingResponse(pieces, media_type=FORMATS[form].media_type, headers=headers)


def progress(job: Job, ahead: list[Job]) -> tuple[str, float | None]:
    """Return what happens to a job, for example `Chapter 12 of 40, about 2 minutes left`, and the
    share of it that is done; None while it waits for the jobs `ahead`."""
    running, step = (ahead[0], "") if ahead else (job, job.step)
    left = running.seconds_left
    time = "" if left is None else f"about {duration(left)} left"
    if ahead:
        others = counted(len(ahead), "other text")
        first = f" The first has {time}." if time else ""
        return f"Waiting: {others} will be scored first.{first}", None
    return ", ".join(filter(None, [step, time])) or "Scoring", job.share


def duration(seconds: float) -> str:
    """Return a time in words, rounded, such as `2 minutes`."""
    for name, size in (("hour", 3600), ("minute", 60)):
        if seconds >= 0.9 * size:
            return counted(round(seconds / size), name)
    return counted(max(1, round(seconds)), "second")


def html(value: str = "", **options: Any) -> gr.HTML:
    """Return a component for HTML, without gradio's own style and script."""
    return gr.HTML(value, apply_default_css=False, js_on_load=None, **options)


def sentence(error: Exception) -> str:
    """Return the message of an error as a sentence on one line, with a capital and a full stop."""
    text = one_line(error) or type(error).__name__
    return text[0].upper() + text[1:] + "." * text[-1].isalnum()

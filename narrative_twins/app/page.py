"""The logic of the web page, independent of gradio: user input in, changes of the page out."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from narrative_twins.app.estimates import format_duration
from narrative_twins.app.guide import advice_on
from narrative_twins.app.jobs import Job, Request
from narrative_twins.app.queue import ScoringQueue
from narrative_twins.app.requests import ScoreRequest
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.options import Approximation
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import write_book, write_results
from narrative_twins.show.shaded import displayed, salience_curve, salient_list, shaded_text
from narrative_twins.show.terminal import marked
from narrative_twins.stories.splitting import SPLITTERS, is_split_name
from narrative_twins.stories.story import parse_windows

KEPT = 64  # results held in memory; older results are dropped
ONE_PASS = "one pass"
Method: TypeAlias = Literal["exact", "one pass"]
METHODS = get_args(Method)
DOWNLOADS = ("json", "csv", "html")
BOOK_DOWNLOADS = ("json", "html")
NO_RESULT = "These results are no longer stored; score the text again."
_CANCELLED = "Cancelled. The scoring has stopped."

Parts = dict[str, Any]
"""Changes of the page: new values by the name of the part."""


class Visitor(NamedTuple):
    """Who uses the page: the address of the client, and the session, which the browser chooses."""

    address: str
    session: str

    @classmethod
    def of(cls, request: Any) -> Visitor:
        """Who sends a request of gradio."""
        return cls(request.client.host if request.client else "", request.session_hash)


class Page:
    """Handles the events of the page: methods take user input, and return or yield changes of the
    page.

    Args:
        queue: scores the stories.
        pause: seconds between two updates of the progress.
        any_encoder: whether visitors may name an encoder, which the server then loads from its disk
            or the Hub.
    """

    def __init__(self, queue: ScoringQueue, pause: float = 0.3, any_encoder: bool = False) -> None:
        self.queue, self.pause, self.any_encoder = queue, pause, any_encoder
        self.results: OrderedDict[str, StorySalience | BookSalience] = OrderedDict()
        self.jobs: dict[Visitor, Job] = {}

    def score(
        self,
        visitor: Visitor,
        text: str,
        operations: list[str],
        windows: str,
        method: str,
        split: str = "sentences",
        encoder: str = "",
    ) -> Iterator[Parts]:
        """Score a story: yields its progress, and in the end the results or an error message."""
        yield from self.run(
            visitor,
            lambda: self._request(text, operations, windows, method, split, encoder),
            self._finished,
        )

    def run(
        self,
        visitor: Visitor,
        request: Callable[[], Request],
        finished: Callable[[Job, Any], Parts],
    ) -> Iterator[Parts]:
        """Score what is requested: yields `status` and `busy`, and in the end what `finished` makes
        of the result. A `ValueError` of the request is shown as the status."""
        try:
            job = self.queue.start(request(), visitor.address)
        except ValueError as error:
            yield {"status": problem(str(error))}
            return
        self.jobs[visitor] = job
        try:
            for _ in job.steps(self.pause):
                yield {"busy": True, "status": _progress(job)}
        finally:
            # Also if the user has closed the page, or scores another story.
            job.stop()
            self.jobs.pop(visitor, None)
        if job.result is None:
            text = job.problem or _CANCELLED
            yield {"busy": False, "status": problem(text) if job.problem else status(text)}
        else:
            yield {"busy": False, **finished(job, job.result)}

    def score_data(
        self,
        visitor: Visitor,
        text: str,
        operations: list[str],
        windows: str,
        method: str,
        split: str = "sentences",
    ) -> Iterator[dict[str, Any]]:
        """Score a story for a program: yields steps with `phase`, `share` and `seconds_left` (None
        before the scoring has begun), and in the end the result as `StorySalience.to_dict` has it.
        Raises `ValueError` with a sentence on what is wrong."""
        job = self.queue.start(
            self._request(text, operations, windows, method, split, ""), visitor.address
        )
        try:
            for _ in job.steps(self.pause):
                yield {
                    "phase": job.phase,
                    "share": job.share,
                    "seconds_left": job.seconds_left if job.began else None,
                }
        finally:
            # Also if the program has gone, or cancels the story.
            job.stop()
        if job.result is None:
            raise ValueError(job.problem or _CANCELLED)
        yield job.result.to_dict()

    def cancel(self, visitor: Visitor) -> None:
        """Stop the scoring of a visitor's story, if there is one."""
        if visitor in self.jobs:
            self.jobs[visitor].stop()

    def shade(self, token: str, operation: str, k: int) -> Parts:
        """Show results by another operation, or with another number of most salient sentences."""
        result = self.results.get(token)
        if not isinstance(result, StorySalience):
            return {"status": problem(NO_RESULT)}
        if operation not in result.scores:
            return {"status": problem(f"The story was not scored by {operation!r}.")}
        return {
            "shaded": shaded_text(result, operation),
            "curve": salience_curve(result, operation),
            "salient": _extract(result, int(k), operation),
            "advice": advice_on(operation),
        }

    def download(self, token: str, form: str) -> Iterator[str | bytes]:
        """Results in a format, in pieces. Raises `KeyError` if they are no longer stored, or the
        format is unknown."""
        result = self.results[token]
        if isinstance(result, BookSalience):
            if form not in BOOK_DOWNLOADS:
                raise KeyError(form)
            return write_book(result, form)
        if form not in DOWNLOADS:
            raise KeyError(form)
        return write_results([result], form, result.scores)

    def keep(self, result: StorySalience | BookSalience) -> str:
        """Keep a result, the oldest of which are dropped, and return its token."""
        token = secrets.token_urlsafe(12)
        self.results[token] = result
        while len(self.results) > KEPT:
            self.results.popitem(last=False)
        return token

    def _request(
        self, text: str, operations: list[str], windows: str, method: str, split: str, encoder: str
    ) -> ScoreRequest:
        """What to score. Raises `ValueError` with a sentence on what is wrong with the input."""
        if not text.strip():
            raise ValueError("There is no story yet: paste one, or open a text file.")
        if not operations:
            raise ValueError("Choose at least one operation.")
        try:
            chosen = parse_windows(windows.strip() or "auto")
        except ValueError as error:
            raise ValueError(f"Windows: {error}.") from None
        if not is_split_name(split):
            raise ValueError(f"A text is split into {', '.join(SPLITTERS)}, not {split[:40]!r}.")
        name = encoder.strip() if self.any_encoder else ""
        # Joins pairs of surrogates, and replaces lone ones, which encoders and browsers can't read.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        approximate: Approximation | None = "one-pass" if method == ONE_PASS else None
        if approximate:
            operations = [
                name for name in operations if OPERATIONS[name].has_one_pass
            ] or operations
        return ScoreRequest(text, operations, chosen, name or None, approximate, split)

    def _finished(self, job: Job, result: StorySalience) -> Parts:
        token, sentences = self.keep(result), len(result)
        # As many as are underlined.
        k = len(marked(result, result.primary_operation))
        return {
            "status": status(" ".join([f"{result.extent}.", *result.notes])),
            "token": token,
            "operation": (list(result.scores), result.primary_operation),
            "k": (sentences, k),
            "downloads": links(token, DOWNLOADS),
            **self.shade(token, result.primary_operation, k),
        }


def _extract(result: StorySalience, k: int, operation: str) -> str:
    """The extract with a button that copies it, and the same as a list with the numbers and scores
    of the sentences."""
    return (
        f"{copied(str(result.extract(k, operation)))}"
        '<details class="numbered"><summary>With numbers and scores</summary>'
        f"{salient_list(result, k, operation)}</details>"
    )


def copied(text: str) -> str:
    """An extract with a button that copies it."""
    return (
        f'<p class="extract">{escape(displayed(text))}</p>'
        '<button type="button" class="copy" aria-live="polite">Copy</button>'
    )


def links(token: str, forms: Iterable[str]) -> str:
    """Links to a result in several formats."""
    found = "".join(
        f'<a href="download/{token}.{form}" download="salience.{form}">{form.upper()}</a>'
        for form in forms
    )
    return f'<p class="downloads"><span>Download as</span> {found}</p>'


def status(text: str) -> str:
    """A message on what is done."""
    return f'<p class="status" role="status">{escape(text)}</p>'


def problem(text: str) -> str:
    """A message on what is wrong."""
    return f'<p class="status problem" role="alert">{escape(text)}</p>'


def _progress(job: Job) -> str:
    if not job.began:
        return status(f"{job.phase} …")
    text = f"{job.phase}: {job.share:.0%}, about {format_duration(job.seconds_left)} left"
    return (
        status(text)
        + f'<progress aria-label="progress" max="1" value="{job.share:.3f}"></progress>'
    )

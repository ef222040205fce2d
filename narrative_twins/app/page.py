"""The logic of the web page, independent of gradio: user input in, changes of the page out."""

from __future__ import annotations

import secrets
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from markupsafe import Markup

from narrative_twins.app.queue import METHODS, Job, ScoringQueue, Work, book_work, story_work
from narrative_twins.plots.shades import PALE_DARK, STRONG_DARK, shades, shares
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.options import Approximation
from narrative_twins.salience.progress import format_duration
from narrative_twins.salience.result import StorySalience, precision, shown_score
from narrative_twins.show.formats import FORMATS, book_formats, write_results
from narrative_twins.show.pages import templates
from narrative_twins.show.terminal import marked

KEPT = 64  # results held in memory; older results are dropped
SHARE = 5  # the percentage of the sentences of a book that is in the extract at first
NO_RESULT = "These results are no longer stored; score the text again."
WIDTH, HEIGHT = 600, 80  # of the curve, in its own units

Parts: TypeAlias = dict[str, Any]
"""Changes of the page by the name of the part: its new value, or a dictionary of new properties."""

_BUSY: Parts = {"score": {"interactive": False}, "cancel": {"visible": True}}
_READY: Parts = {"score": {"interactive": True}, "cancel": {"visible": False}}
_SHOWN: Parts = {
    "results": {"visible": True},
    "invitation": {"visible": False},
    "others": {"visible": False},
}
"""Results of a story are shown in place of those of a book, or the other way round."""


class Visitor(NamedTuple):
    """Who uses the page: the address of the client, and the session, which the browser chooses."""

    address: str
    session: str


class Page:
    """Handles the events of the page: methods take user input, and return or yield changes of the
    page.

    Args:
        queue: scores the stories and books.
        pause: seconds between two updates of the progress.
        any_encoder: whether visitors may name an encoder, which the server then loads from its disk
            or the Hub.
        approximate: how stories are scored unless the visitor chooses: in one pass, or exactly
            (None).
    """

    def __init__(
        self,
        queue: ScoringQueue,
        pause: float = 0.3,
        any_encoder: bool = False,
        approximate: Approximation | None = "one-pass",
    ) -> None:
        self.queue, self.pause, self.any_encoder = queue, pause, any_encoder
        (self.method,) = (name for name, value in METHODS.items() if value == approximate)
        self.results: OrderedDict[str, StorySalience | BookSalience] = OrderedDict()
        self.jobs: dict[Visitor, Job] = {}

    def score(self, visitor: Visitor, *, encoder: str = "", **story: Any) -> Iterator[Parts]:
        """Score a story, see `story_work`: yields its progress, and in the end the results or an
        error message. The encoder is ignored if visitors may not name one."""
        name = encoder.strip() if self.any_encoder else ""
        return self._run(visitor, partial(story_work, **story, encoder=name or None))

    def score_book(self, visitor: Visitor, **book: Any) -> Iterator[Parts]:
        """Score a book, see `book_work`: yields its progress, and in the end the results or an
        error message."""
        return self._run(visitor, partial(book_work, **book), in_thread=True)

    def _run(
        self, visitor: Visitor, read: Callable[[Job], Work], **options: bool
    ) -> Iterator[Parts]:
        job = None
        try:
            job = self.jobs[visitor] = self.queue.start(read, visitor.address, **options)
            for _ in job.steps(self.pause):
                yield _BUSY | {"status": self._status(job)}
            yield _READY | _SHOWN | self._result(job.result)
        except ValueError as error:
            kind = "status" if job is not None and job.stopped else "problem"
            yield _READY | {"status": part(kind, str(error))}
        finally:
            # Also if the visitor has closed the page, or scores another story.
            if job is not None:
                job.stop()
                self.jobs.pop(visitor, None)

    def score_data(self, visitor: Visitor, **story: Any) -> Iterator[dict[str, Any]]:
        """Score a story for a program, see `story_work`: yields steps with `phase`, `share` and
        `seconds_left` (None until it can be estimated), and in the end the result as
        `StorySalience.json` has it. Raises `ValueError` with a sentence on what is wrong."""
        job = self.queue.start(partial(story_work, **story), visitor.address)
        try:
            for _ in job.steps(self.pause):
                step = {"phase": self._phase(job), "share": job.share}
                yield step | {"seconds_left": self.queue.seconds_left(job)}
            yield job.result.json()
        finally:
            # Also if the program has gone, or cancels the story.
            job.stop()

    def _phase(self, job: Job) -> str:
        """What is done for a job, or how many are scored before it."""
        if job.phase:
            return job.phase
        before = len(self.queue.before(job))
        place = f"after {before} other{'s' * (before != 1)}" if before else "as the next"
        return f"Waiting for its turn, {place}"

    def _status(self, job: Job) -> str:
        """How far a job is, and how long it takes if that can be estimated, as HTML."""
        phase, left = self._phase(job), self.queue.seconds_left(job)
        if left is None:
            return part("status", f"{phase} …")
        time_left = f"about {format_duration(left)} left"
        if not job.phase:
            return part("status", f"{phase}, {time_left} …")
        return part("progress", f"{phase}: {job.share:.0%}, {time_left}", job.share)

    def cancel(self, visitor: Visitor) -> None:
        """Stop the scoring of a visitor's story, if there is one."""
        if visitor in self.jobs:
            self.jobs[visitor].stop()

    def shade(self, token: str, operation: str, k: float) -> Parts:
        """Show results by another operation, or with another number of most salient sentences."""
        result = self.results.get(token)
        if not isinstance(result, StorySalience):
            return {"status": part("problem", NO_RESULT)}
        if operation not in result.scores:
            return {"status": part("problem", f"The story was not scored by {operation!r}.")}
        extract = result.extract(int(k), operation)
        sentences = [
            (item.index + 1, displayed(item.sentence), shown_score(item.score, result.dtype))
            for item in extract
        ]
        return {
            "shaded": shaded_text(result, operation),
            "curve": salience_curve(result, operation),
            "salient": part("extract", displayed(str(extract)), sentences),
            "advice": part("advice_on", operation),
        }

    def extract(self, token: str, share: float) -> Parts:
        """Show an extract of this percentage of the sentences of a book."""
        result = self.results.get(token)
        if not isinstance(result, BookSalience):
            return {"status": part("problem", NO_RESULT)}
        if "sentence" not in result.levels:
            return {"extract": part("hint", "An extract needs the level of sentences.")}
        return {"extract": part("copied", displayed(str(result.extract(share=share / 100))))}

    def download(self, token: str, form: str) -> Iterable[str | bytes]:
        """Results in a format, in pieces. Raises `KeyError` if they are no longer stored, or the
        format does not apply to them."""
        result = self.results[token]
        if form not in downloads(result):
            raise KeyError(form)
        return write_results(result if isinstance(result, BookSalience) else [result], form)

    def keep(self, result: StorySalience | BookSalience) -> str:
        """Keep a result, the oldest of which are dropped, and return its token."""
        token = secrets.token_urlsafe(12)
        self.results[token] = result
        while len(self.results) > KEPT:
            self.results.popitem(last=False)
        return token

    def _result(self, result: StorySalience | BookSalience) -> Parts:
        token = self.keep(result)
        parts = {"token": token, "downloads": part("downloads", token, downloads(result))}
        if isinstance(result, BookSalience):
            notes = " ".join([f"{result.extent}.", *result.footer])
            chapters = map(Markup, result.contents())
            return parts | {
                "status": part("status", f"{result.extent}."),
                "contents": part("book", result, chapters, notes),
                "share": SHARE,
                **self.extract(token, SHARE),
            }
        operation = result.primary_operation
        k = max(1, len(marked(result, operation)))  # as many as are underlined
        notes = " ".join([f"{result.extent}.", *result.notes, *precision(result.dtype)])
        return parts | {
            "status": part("status", notes),
            "operation": {"choices": list(result.scores), "value": operation},
            "k": {"maximum": max(2, len(result.sentences)), "value": k},
            **self.shade(token, operation, k),
        }


def part(name: str, *values: Any) -> str:
    """A piece of the page as HTML, by its name in `templates/parts.html`; values are escaped."""
    macro = getattr(templates("narrative_twins.app").get_template("parts.html").module, name)
    return str(macro(*values))


def downloads(result: StorySalience | BookSalience) -> list[str]:
    """The formats in which a result can be downloaded: those whose libraries are installed, and
    which are not text for a terminal."""
    found = []
    for name in book_formats() if isinstance(result, BookSalience) else FORMATS:
        with suppress(ImportError):
            FORMATS[name].check()
            found += [name] if FORMATS[name].download else []
    return found


def shaded_text(result: StorySalience, operation: str) -> str:
    """The text of a story as HTML, with its paragraphs and line breaks. The text content is
    `displayed(result.story.text)`; each sentence is a `span` of the class `sentence`, the most
    salient fifth also of the class `top`. Scores are in `data-scores`, and shades for light and
    dark pages in the variables `--light` and `--dark`, for a style sheet to show. The tab key
    reaches the first sentence only; a script moves the focus from there."""
    text, end, sentences = displayed(result.story.text), 0, []
    scores, top = result.shaded(operation), marked(result, operation)
    light, dark = shades(scores), shades(scores, PALE_DARK, STRONG_DARK)
    descriptions = result.descriptions(operation)
    for i, (start, stop) in enumerate(result.spans):
        gap, sentence = text[end:start], text[start:stop]
        sentences.append((gap, sentence, light[i], dark[i], i in top, descriptions[i]))
        end = stop
    return part("shaded", operation, sentences, text[end:])


def salience_curve(result: StorySalience, operation: str) -> str:
    """The scores of a story as a curve in story order, with a vertical line at each window border,
    as HTML with SVG."""
    scores, n = result.scores[operation], len(result.sentences)
    best, shown = scores.index(max(scores)), partial(shown_score, dtype=result.dtype)
    meaning = f", {OPERATIONS[operation].meaning}" if operation in OPERATIONS else ""
    caption = (
        f"Salience by {operation}{meaning}: highest at sentence {best + 1} of {n}"
        f" ({shown(scores[best])})"
    )
    heights = [HEIGHT - 6 - share * (HEIGHT - 12) for share in shares(scores)]
    points = [(f"{(i + 0.5) * WIDTH / n:.1f}", f"{y:.1f}") for i, y in enumerate(heights)]
    borders = [f"{lo * WIDTH / n:.1f}" for lo, _ in result.windows[1:]]
    ends = sorted({shown(value) for value in (min(scores), max(scores))}, key=float)
    # The first sentence, and multiples of 1, 2 or 5 times a power of ten: about six numbers.
    steps = (factor * 10**power for power in range(19) for factor in (1, 2, 5))
    step = next(step for step in steps if n < 7 * step)
    numbers = [1, *(number for number in range(step, n + 1, step) if number > 1)]
    places = [(number, f"{(number - 0.5) * 100 / n:.2f}") for number in numbers]
    return part("curve", caption, ends, points, borders, places, WIDTH, HEIGHT)


def displayed(text: str) -> str:
    """A text as HTML can show it, of the same length: tabs and line feeds stay; a carriage return
    is a space before a line feed, otherwise a line feed; other control characters and lone
    surrogates are U+FFFD."""
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    return "".join(
        char if char in "\t\n" or unicodedata.category(char) not in ("Cc", "Cs") else "\ufffd"
        for char in text
    )

"""The choices of annotators: which stories they still have to read, their answers in a file, and
how far they agree. Independent of gradio."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from narrative_twins.app.page import Parts, displayed, part
from narrative_twins.files import ResumableFile, digest
from narrative_twins.stories.reading import story_digest
from narrative_twins.stories.story import Story

MAX_WORDS = 11
"""Of a summary, as in the paper: fewer than 12."""
MAX_SUMMARY = 200
MAX_NAME = 40
MAX_CHARACTERS = 20_000
"""Of a story, a summary in characters, and the name of an annotator."""
MAX_SENTENCES = 100
MAX_STORIES = 10_000
MAX_ANNOTATORS = 1000

Report: TypeAlias = Callable[[str], None]


class Practice(NamedTuple):
    """A story with its summary, by which annotators show that they have understood the guidelines:
    the number of the sentence to choose, and why."""

    sentences: Sequence[str]
    summary: str
    choice: int
    reason: str


PRACTICE = (
    Practice(
        (
            "Tomas was painting the hallway of his grandmother's house.",
            "Behind a loose board he found four bars of gold.",
            "He wrapped them in an old newspaper.",
            "Then he called his grandmother.",
            "They sat down in the kitchen and had tea.",
        ),
        "Tomas finds gold in a wall of his grandmother's house.",
        2,
        "The summary uses sentences 1 and 2, and nobody expects gold behind a board.",
    ),
    Practice(
        (
            "I had the day off and went to the lake.",
            "A man at the shore had the head of a lion on his arm, as a tattoo.",
            "I rented the last boat and rowed far out.",
            "A swan climbed into the boat and would not let me sit.",
            "I was wet and tired when I got home.",
        ),
        "A swan threw me out of my boat.",
        4,
        "Sentence 2 may astonish, too, but the summary does not use it.",
    ),
)
"""All annotators answer these first; a wrong choice is explained, and asked for again."""


class Answers:
    """The answers of annotators to stories, each of which is appended to a file as a line:
    `{"id", "annotator", "story", "choice", "summary"}`, the choice counted from 1. They may be
    added by several threads.

    Args:
        stories: the stories; those without an id are named by their number.
        file: resumed, and open while answers are added.
        report: is called with the state after each answer.

    Raises:
        ValueError: there are no stories, too many, two with the same id, or a story is too long;
            `ResumeError` if the file has a line that is not an answer to one of them.
    """

    def __init__(self, stories: Sequence[Story], file: ResumableFile, report: Report) -> None:
        self.stories, self.file, self.report = stories, file, report
        self.ids = story_ids(stories)
        self.choices: dict[str, dict[int, int]] = {}
        """The choice of each annotator by the number of the story."""
        self._lock, self._failed = Lock(), False
        places = {id_: i for i, id_ in enumerate(self.ids)}
        for number, row in enumerate(file.rows(), start=1):
            try:
                own = self.choices.setdefault(row["annotator"], {})
                own[places[row["id"]]] = row["choice"]
            except (KeyError, TypeError):
                raise file.not_resumable(number, "is not an answer to these stories") from None

    def next_story(self, annotator: str) -> int | None:
        """The number of the first story that an annotator has not answered; None if there is
        none."""
        done = self.choices.get(annotator, {})
        return next((i for i in range(len(self.stories)) if i not in done), None)

    def add(self, annotator: str, story: int, choice: int, summary: str) -> bool:
        """Add an answer, whole or not at all; False if the annotator has answered the story, and
        nothing is added. Raises `ValueError` with a sentence on what is wrong, `OSError` if it
        can't be written."""
        summary = " ".join(summary.split())
        words = len(summary.split())
        if not summary:
            raise ValueError("Please sum up the story first.")
        if words > MAX_WORDS:
            raise ValueError(f"The summary has {words} words; use at most {MAX_WORDS}.")
        if len(summary) > MAX_SUMMARY:
            raise ValueError(f"The summary is too long; use at most {MAX_SUMMARY} characters.")
        if not 1 <= choice <= len(self.stories[story]):
            raise ValueError(f"There is no sentence {choice}.")
        row = {"id": self.ids[story], "annotator": annotator}
        text = {"story": list(self.stories[story].sentences)}
        with self._lock:
            if story in self.choices.get(annotator, {}):
                return False
            if annotator not in self.choices and len(self.choices) >= MAX_ANNOTATORS:
                raise ValueError(f"There are {MAX_ANNOTATORS} annotators already.")
            if self._failed:
                raise OSError("an earlier answer could not be written")
            try:
                self.file.write_row({**row, **text, "choice": choice, "summary": summary})
            except OSError as error:
                # A part of the line may be written, and nothing may follow it.
                self._failed = True
                self.report(f"{error}; no more answers are taken: make room, and start again")
                raise
            self.choices.setdefault(annotator, {})[story] = choice
            done = f"{len(self.choices[annotator])} of {len(self.stories)}"
            self.report(f"{annotator} has answered {done}; {self.state()}")
            return True

    def state(self) -> str:
        """What there is, in words: answers, the entropy of the labels, and the agreement of each
        annotator with the mean of the others, as `narrative-twins evaluate` has them."""
        from narrative_twins.evaluation.labelled import DataSummary, LabelledStories
        from narrative_twins.evaluation.measure import measure_people
        from narrative_twins.evaluation.metrics import METRICS, mean

        by_story: dict[int, list[int]] = {}
        for own in self.choices.values():
            for story, choice in own.items():
                by_story.setdefault(story, []).append(choice)
        total = sum(map(len, by_story.values()))
        if not total:
            return "no answers yet"
        annotations = [
            [[float(n == choice) for n in range(1, len(self.stories[story]) + 1)] for choice in own]
            for story, own in by_story.items()
        ]
        labels = [list(map(fmean, zip(*own, strict=True))) for own in annotations]
        stories = [self.stories[story] for story in by_story]
        labelled = LabelledStories("answers", stories, labels, annotations=annotations)
        text = f"answers: {total:,}, annotators: {len(self.choices):,}"
        text += f"; {DataSummary.of(labelled, 'numbered').text}"
        for rows in measure_people(labelled):
            means = (
                f"{metric.label} {mean(rows['value'][rows['metric'] == key])}"
                for key, metric in METRICS.items()
            )
            text += f"; agreement ({rows['scorer'][0]}): {', '.join(means)}"
        return text


def story_ids(stories: Sequence[Story]) -> list[str]:
    """The ids of stories to annotate, by number if they have none; see `Answers` for the
    errors."""
    if not stories:
        raise ValueError("there is no story to annotate")
    if len(stories) > MAX_STORIES:
        raise ValueError(f"{len(stories):,} stories; annotate at most {MAX_STORIES:,} at a time")
    ids = [str(n if s.id is None else s.id) for n, s in enumerate(stories, start=1)]
    for id_, story in zip(ids, stories, strict=True):
        if len(story) > MAX_SENTENCES or len(story.text) > MAX_CHARACTERS:
            raise ValueError(
                f"story {id_!r} has {len(story)} sentences and {len(story.text):,} characters; at"
                f" most {MAX_SENTENCES} and {MAX_CHARACTERS:,} can be annotated"
            )
    if repeated := [id_ for id_, count in Counter(ids).items() if count > 1]:
        raise ValueError(f"several stories have the id {repeated[0]!r}; give each its own")
    return ids


def stories_digest(stories: Iterable[Story]) -> str:
    """A digest of stories, by which a collection is recognized when it is resumed."""
    return digest([story_digest(None, story.sentences, story.windows) for story in stories])


class AnnotationPage:
    """Handles the events of the page: methods take what an annotator sends, and return changes of
    the page. The steps of an annotator are first those of `PRACTICE`, with negative numbers, then
    the numbers of the stories."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def begin(self, name: str) -> Parts:
        """Show an annotator the first step, or, if there are answers of this name, the first story
        without one."""
        name = " ".join(displayed(name).split())
        if not 0 < len(name) <= MAX_NAME:
            words = f"Please give a name or code of at most {MAX_NAME} characters."
            return {"welcome_status": part("problem", words)}
        known = name in self.answers.choices
        step = self.answers.next_story(name) if known else -len(PRACTICE)
        note = "Welcome back: your answers so far are saved." if known else ""
        return {"annotator": name, **self._shown(step, note)}

    def answer(self, annotator: str, step: int | None, summary: str, choice: int | None) -> Parts:
        """Take an answer to a step, and show the next one; or say what is wrong."""
        if not annotator or step is None:
            return {"status": part("problem", "Please reload the page.")}
        if choice is None:
            return {"status": part("problem", "Please choose a sentence.")}
        if step < 0:
            practice = PRACTICE[step]
            right = choice == practice.choice
            if not right:
                words = f"Please choose again. {practice.reason}"
                return {"status": part("problem", words), "choice": {"value": None}}
            following = step + 1 or self.answers.next_story(annotator)
            return self._shown(following, f"That's right. {practice.reason}")
        try:
            added = self.answers.add(annotator, step, choice, displayed(summary))
        except ValueError as error:
            return {"status": part("problem", str(error))}
        except OSError:
            words = "Your answer could not be saved; tell those who run this page."
            return {"status": part("problem", words)}
        note = "Saved." if added else "You have answered this story before; that answer is kept."
        return self._shown(self.answers.next_story(annotator), note)

    def _shown(self, step: int | None, note: str) -> Parts:
        """The page at a step; without one, the end."""
        status = part("status", note) if note else ""
        shown: dict[str, Any] = {"welcome": {"visible": False}, "status": status, "step": step}
        if step is None:
            return shown | {"work": {"visible": False}, "end": {"visible": True}}
        if step < 0:
            sentences: Sequence[str] = PRACTICE[step].sentences
            heading = f"Practice {step + len(PRACTICE) + 1} of {len(PRACTICE)}"
            given = PRACTICE[step].summary
        else:
            sentences, given = self.answers.stories[step].sentences, ""
            heading = f"Story {step + 1} of {len(self.answers.stories)}"
        texts = [displayed(sentence) for sentence in sentences]
        done = max(step, 0) / len(self.answers.stories)
        choices = [(f"{number}. {text}", number) for number, text in enumerate(texts, start=1)]
        return shown | {
            "work": {"visible": True},
            "story": part("to_annotate", heading, texts, given, done),
            "summary": {"visible": step >= 0, "value": ""},
            "choice": {"choices": choices, "value": None},
        }

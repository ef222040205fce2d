"""A page on which people read stories, sum up each, and choose its most important sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from threading import Lock
from typing import Any

import gradio as gr

from narrative_twins.app.result_html import part
from narrative_twins.stories.story import Story
from narrative_twins.text import for_terminal, one_line
from narrative_twins.writing import JsonlLog

MAX_WORDS = 11
"""Words of a summary; the paper asks for fewer than 12."""
MAX_NAME = 40

_TEXTS = files("narrative_twins.app").joinpath("templates")
GUIDELINES = _TEXTS.joinpath("guidelines.md").read_text("utf-8")
PRACTICE: list[dict[str, Any]] = json.loads(_TEXTS.joinpath("practice.json").read_text("utf-8"))
"""Stories with a summary, by which annotators show that they have understood the guidelines: a
wrong choice is explained, and asked for again."""


class Answers:
    """The answers of annotators. Each is appended to a log as a row `{"id", "annotator", "story",
    "choice", "summary"}`, where `choice` is the number of a sentence, from 1.

    Args:
        stories: the stories; a story without an id gets its number as id.
        log: the log. It has the earlier answers, and must be open when an answer is added.
        report: called with a line after each answer.

    Raises:
        ValueError: there are no stories, or two stories have the same id.
        ResumeError: a row of the log is not an answer to one of the stories.
    """

    def __init__(
        self, stories: Sequence[Story], log: JsonlLog, report: Callable[[str], None]
    ) -> None:
        self.log, self.report, self._lock = log, report, Lock()
        self.stories = {str(n if s.id is None else s.id): s for n, s in enumerate(stories, start=1)}
        if not stories or len(self.stories) < len(stories):
            raise ValueError("give at least one story, and each an id of its own")
        self.done: set[tuple[str, str]] = set()
        """The annotators, each with the id of a story that has an answer by the annotator."""
        for number, row in enumerate(log.rows):
            answered = self.stories.get(row.get("id", ""))
            if answered is None or row.get("story") != list(answered.sentences):
                raise log.error(number, "is not an answer to one of these stories")
            self.done.add((row["annotator"], row["id"]))

    def next_story(self, annotator: str) -> str | None:
        """Return the id of the first story without an answer by the annotator, or None."""
        return next((id_ for id_ in self.stories if (annotator, id_) not in self.done), None)

    def add(self, annotator: str, id_: str, choice: int | None, summary: str) -> None:
        """Add an answer for the story `id_`. A second answer by an annotator is ignored. Raises a
        `ValueError` with a sentence for the annotator if the choice or the summary is invalid."""
        words, story = for_terminal(summary).split(), self.stories[id_]
        if not 0 < len(words) <= MAX_WORDS:
            raise ValueError(f"Please sum up the story in at most {MAX_WORDS} words.")
        if choice not in range(1, len(story) + 1):
            raise ValueError("Please choose a sentence.")
        row = {"id": id_, "annotator": annotator, "story": list(story.sentences)}
        with self._lock:
            if (annotator, id_) not in self.done:
                self.log.append({**row, "choice": choice, "summary": " ".join(words)})
                self.done.add((annotator, id_))
                self.report(f"{annotator} has answered {id_}; answers: {len(self.done):,}")


class AnnotationPage:
    """The page for annotators, as gradio blocks (`blocks`). The steps of an annotator are the
    indices of the stories in `PRACTICE`, then the ids of the stories, and None at the end."""

    def __init__(self, answers: Answers) -> None:
        self.answers, self.routes = answers, dict[str, Any]()
        with gr.Blocks(title="Annotation of stories", analytics_enabled=False) as self.blocks:
            self.annotator, self.step = gr.State(""), gr.State(None)
            with gr.Column(elem_id="annotation"):
                with gr.Accordion("Guidelines") as self.guidelines:
                    gr.Markdown(GUIDELINES)
                with gr.Column() as self.welcome:
                    info = "Any you like. To continue later, give the same."
                    self.name = gr.Textbox(label="Your name or code", info=info, max_lines=1)
                    begin = gr.Button("Begin", variant="primary")
                self.status = gr.HTML()
                with gr.Column(visible=False) as self.work:
                    self.story = gr.HTML(elem_id="story")
                    label = f"Sum up the story in at most {MAX_WORDS} words"
                    self.summary = gr.Textbox(label=label, elem_id="summary")
                    label = "Of the sentences that the summary uses, choose the most astonishing"
                    self.choice = gr.Radio([], label=label, elem_id="choice")
                    save = gr.Button("Save, and go on", variant="primary")
            outputs = [self.annotator, self.step, self.guidelines, self.welcome, self.status]
            outputs += [self.work, self.story, self.summary, self.choice]
            options: Any = {"outputs": outputs, "api_visibility": "private"}
            gr.on([begin.click, self.name.submit], self.begin, self.name, **options)
            values = [self.annotator, self.step, self.summary, self.choice]
            saved = save.click(self.answer, values, trigger_mode="once", **options)
            saved.then(None, js="() => scrollTo(0, 0)")
        self.blocks.queue()

    def begin(self, name: str) -> dict[Any, Any]:
        """Return gradio's updates, by component, that show the first step to the annotator `name`,
        the first unanswered story if there are answers by `name`, or what is wrong with `name`."""
        name = one_line(name)
        if not 0 < len(name) <= MAX_NAME:
            words = f"Please give a name or code of at most {MAX_NAME} characters."
            return {self.status: part("problem", words)}
        is_back = name in {annotator for annotator, _ in self.answers.done}
        step = self.answers.next_story(name) if is_back else 0
        note = "Welcome back: your answers so far are saved." if is_back else ""
        begun = {self.annotator: name, self.welcome: gr.update(visible=False)}
        return begun | {self.guidelines: gr.update(open=False)} | self.shown(step, note)

    def answer(
        self, annotator: str, step: int | str | None, summary: str, choice: int | None
    ) -> dict[Any, Any]:
        """Check the answer to a step, and save it if the step is the id of a story. Return gradio's
        updates, by component, that show the next step or the error in the answer."""
        following: int | str | None = None
        try:
            if step is None:
                raise ValueError("Please reload the page.")
            if isinstance(step, str):
                self.answers.add(annotator, step, choice, summary)
                note = "Saved."
            elif choice != PRACTICE[step]["choice"]:
                raise ValueError(f"Please choose again. {PRACTICE[step]['reason']}")
            else:
                note = f"That's right. {PRACTICE[step]['reason']}"
                following = step + 1 if step + 1 < len(PRACTICE) else None
        except ValueError as error:
            return {self.status: part("problem", str(error))}
        if following is None:
            following = self.answers.next_story(annotator)
        return self.shown(following, note)

    def shown(self, step: int | str | None, note: str) -> dict[Any, Any]:
        """Return gradio's updates that show a note and a step; the end if `step` is None."""
        if step is None:
            note += " That was the last story. Thank you! You can close the page."
            return {self.work: gr.update(visible=False), self.status: part("status", note)}
        if isinstance(step, int):
            title, summary = f"Practice {step + 1} of {len(PRACTICE)}", PRACTICE[step]["summary"]
            sentences = PRACTICE[step]["story"]
        else:
            number, summary = list(self.answers.stories).index(step) + 1, ""
            title = f"Story {number} of {len(self.answers.stories)}"
            sentences = self.answers.stories[step].sentences
        texts = [for_terminal(sentence) for sentence in sentences]
        choices = [(f"{number}. {text}", number) for number, text in enumerate(texts, start=1)]
        return {
            self.step: step,
            self.work: gr.update(visible=True),
            self.status: part("status", note) if note else "",
            self.story: part("to_annotate", title, texts, summary),
            self.summary: gr.update(visible=not summary, value=""),
            self.choice: gr.update(choices=choices, value=None),
        }

"""Twins and distractors of stories by a language model, as rows to train on. A recipe is the
sequence of questions about a story; to add one, add a `Recipe` to `RECIPES`.

After "Contrastive Learning with Narrative Twins for Modeling Story Salience" by Sterner, Lascarides
and Keller. The twin of a short story is the story expanded to four times its sentences, in other
words and with additional small events, and then retold from its most important events. A distractor
keeps the surface and has a different main event; the distractor of a synopsis has different turning
points, section by section.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeAlias

from narrative_twins.data.rows import (
    NEGATIVE_NAMES,
    STORY_NAMES,
    TWIN_NAMES,
    RowError,
    check_sentences,
    find_column,
    window_twins,
)
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.generated_rows import (
    LICENCE,
    REJECT,
    Columns,
    Generated,
    model_settings,
    recipe_text,
    rows_by_model,
)
from narrative_twins.prompting.chat import ATTEMPTS, Chat, Question, Rejected, Server
from narrative_twins.prompting.templates import (
    AnswerError,
    answer_form,
    fill,
    list_of,
    read_templates,
)
from narrative_twins.stories.story import Story, StoryError

COLUMNS = ("twin", "negative", "negative_twin")
"""Columns that are made for a short story."""
LONGEST = 40
"""Maximum number of sentences of a short story."""
EXPANSION = 4
"""Number of sentences of an expansion for each sentence of the story."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
"""A word: a run of letters and digits, or a single Chinese or Japanese character."""

Text: TypeAlias = Sequence[str]
"""A text as its sentences."""
Ask: TypeAlias = Callable[[Question], Any]
"""Asks a question, and returns the result of its answer."""


@dataclass(frozen=True)
class Recipe:
    """A sequence of questions about a story, whose answers become columns of its row.

    Attributes:
        make: asks the questions about a story, which it gets as windows of sentences, and returns
            the columns. Raises `Rejected` if the story does not fit the recipe.
        templates: the names of its prompts, see `read_templates`.
        columns: the columns that it can make; if several, `TwinOptions.columns` selects from them.
        windows: the number of windows of a story; 1 for a short story.
    """

    make: Callable[[Ask, Sequence[Text], TwinOptions], Columns]
    templates: Sequence[str]
    columns: Sequence[str]
    windows: int = 1


@dataclass(frozen=True)
class TwinOptions:
    """Options of `make_twins`: the columns to make, and which answers are valid.

    Attributes:
        recipe: a name in `RECIPES`.
        columns: for short stories, the columns to make: `twin`, and optionally others in `COLUMNS`.
        twin_overlap: maximum word overlap of a twin and its story, from 0 to 1, see `overlap`.
        distractor_overlap: minimum word overlap of a distractor and its story, from 0 to 1.
        prompts: a folder of templates that replace the package's.

    Raises:
        OSError, ValueError: the columns are invalid, or a template can't be read.
    """

    recipe: str = "stories"
    columns: Sequence[str] = COLUMNS
    twin_overlap: float = 0.7
    distractor_overlap: float = 0.5
    prompts: str | None = None

    def __post_init__(self) -> None:
        needed = {"twin", "negative"} if "negative_twin" in self.columns else {"twin"}
        if not needed <= set(self.columns):
            raise ValueError(
                f"columns={list(self.columns)}: add twin, without which rows can't be loaded as"
                " narrative twins, and negative, from which negative_twin is made"
            )
        _ = self.templates  # read before a story is asked about

    @cached_property
    def templates(self) -> dict[str, str]:
        """The templates of the prompts of the recipe, by name."""
        return read_templates(RECIPES[self.recipe].templates, self.prompts)


def _make_of_story(ask: Ask, windows: Sequence[Text], options: TwinOptions) -> Columns:
    """Return `options.columns` for a short story, which is the only window in `windows`."""
    (story,) = windows
    size = len(story)
    if size > LONGEST:
        problem = f"{size} sentences; the recipe for short stories takes at most {LONGEST}"
        raise Rejected("story", problem)

    def rewrite(
        step: str, template: str, text: Text, number: int, check: Callable[[Text], object]
    ) -> Text:
        """Ask the model to rewrite `text` by a template, and return the result: about or exactly
        `number` sentences that `check` accepts. `step` names the question."""
        bounds = _bounds_about(number) if template == "expand" else (number, number)
        prompt = fill(options.templates[template], story=_as_json(list(text)), count=number)

        def read(answer: Mapping[str, Any]) -> Text:
            sentences = _read_sentences(answer["sentences"], "sentences")
            check(sentences)
            return sentences

        form = answer_form(sentences=list_of(str, *bounds))
        sentences: Text = ask(Question(step, prompt, form, read))
        return sentences

    def twin(column: str, of: Text) -> Text:
        """Return a twin of the text `of`: an expansion, retold in as many sentences as the story
        has. `column` names the twin in the log."""
        check = partial(_check_sentences_differ, of)
        longer = rewrite(f"{column}, expanded", "expand", of, EXPANSION * size, check)
        check = partial(check_twin, of, most=options.twin_overlap)
        return rewrite(f"{column}, retold", "retell", longer, size, check)

    columns = {"twin": twin("twin", story)}
    if "negative" in options.columns:
        check = partial(check_distractor, story, least=options.distractor_overlap)
        columns["negative"] = rewrite("negative", "distract", story, size, check)
    if "negative_twin" in options.columns:
        columns["negative_twin"] = twin("negative_twin", columns["negative"])
    return columns


def _make_of_synopsis(ask: Ask, windows: Sequence[Text], options: TwinOptions) -> Columns:
    """Return the column `negative` for a synopsis: a distractor with a section for each window."""
    named = {f"section_{number}": list(window) for number, window in enumerate(windows, start=1)}

    def read(answer: Mapping[str, Any]) -> list[list[str]]:
        sections = [_read_sentences(answer[name], name) for name in named]
        for (name, window), section in zip(named.items(), sections, strict=True):
            _check_texts_differ(window, section, name)
        check_distractor([*chain(*windows)], [*chain(*sections)], options.distractor_overlap)
        return sections

    template, count = options.templates["distract_sections"], sum(map(len, windows))
    prompt = fill(template, story=_as_json(named), count=count)
    form = {name: list_of(str, *_bounds_about(len(window))) for name, window in named.items()}
    return {"negative": ask(Question("negative", prompt, answer_form(**form), read))}


RECIPES: dict[str, Recipe] = {
    "stories": Recipe(_make_of_story, ("expand", "retell", "distract"), COLUMNS),
    "synopses": Recipe(_make_of_synopsis, ("distract_sections",), ("negative",), windows=5),
}
"""The recipes by name: twins and distractors of short stories, and distractors of longer ones in
five sections, each with a turning point. `narrative-twins make twins --recipe` has these names."""

_as_json = partial(json.dumps, ensure_ascii=False, indent=1)


def _read_sentences(content: list[str], name: str) -> list[str]:
    """Return the sentences in the property `name` of an answer, without extra white space. Raise
    `AnswerError` if one is empty."""
    try:
        sentences = check_sentences(content, name, "the answer")
    except RowError as error:
        raise AnswerError(error.problem) from None
    return [" ".join(sentence.split()) for sentence in sentences]


def _bounds_about(count: int) -> tuple[int, int]:
    """Return the least and most sentences of a text of about `count` sentences: 5 → 3, 10."""
    return (count + 1) // 2, 2 * count


def overlap(one: Text, other: Text) -> float:
    """Return the Dice coefficient of the distinct words of two texts, 2 |A ∩ B| / (|A| + |B|),
    without regard to case; 0 if there are no words."""
    a, b = (set(_WORD.findall(" ".join(text).casefold())) for text in (one, other))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def check_twin(story: Text, twin: Text, most: float) -> None:
    """Raise `AnswerError` if a sentence of a twin is copied from the story or repeated, or the word
    overlap with the story is above `most`."""
    _check_sentences_differ(story, twin)
    if len(_normalized(twin)) < len(twin):
        raise AnswerError("a sentence is repeated")
    if (share := overlap(story, twin)) > most:
        raise AnswerError(f"the word overlap with the story is {share:.2f}, above {most}")


def check_distractor(story: Text, distractor: Text, least: float) -> None:
    """Raise `AnswerError` if all sentences of a distractor are copied from the story, or the word
    overlap with the story is below `least`."""
    _check_texts_differ(story, distractor, "it")
    if (share := overlap(story, distractor)) < least:
        raise AnswerError(f"the word overlap with the story is {share:.2f}, below {least}")


def _check_sentences_differ(story: Text, text: Text) -> None:
    """Raise `AnswerError` if a sentence of `text` is copied from the story."""
    for number, sentence in enumerate(text, start=1):
        if _normalized([sentence]) <= _normalized(story):
            raise AnswerError(f"sentence {number} is copied from the story")


def _check_texts_differ(story: Text, text: Text, name: str) -> None:
    """Raise `AnswerError` if all sentences of `text`, called `name`, are copied from the story."""
    if _normalized(text) <= _normalized(story):
        raise AnswerError(f"{name} is a copy: all its sentences are in the story")


def _normalized(text: Text) -> set[str]:
    """Return the distinct sentences without case, punctuation and extra white space."""
    return {" ".join(_WORD.findall(each.casefold())) or each.strip() for each in text}


def source_row(content: Any, options: TwinOptions) -> Columns:
    """Return the row that the questions start from. `content` is a data row with a `story`, or
    anything that `Story.parse` takes. The row has `story`, a list of sentences or (if the recipe
    has several) windows, and columns of `content` to keep. Raises StoryError or RowError."""
    count = RECIPES[options.recipe].windows
    row = dict(content) if isinstance(content, Mapping) else {}
    text = find_column(row, *STORY_NAMES)
    if text is not None:
        content = {"sentences": text, "id": row.get("id")}
    story = Story.parse(content, windows=count)
    if count == 1:
        return {**({} if story.id is None else {"id": story.id}), "story": list(story.sentences)}
    if len(story.windows) != count:
        raise StoryError(
            f"the synopsis has {len(story.windows)} windows; give {count}, or a list of sentences"
        )
    left_out = (*STORY_NAMES, *NEGATIVE_NAMES, *REJECT, "text", "sentences")
    # Of what is no data row, only these are columns.
    copied = ("id", "title") if text is None else set(row).difference(left_out)
    columns = {name: value for name, value in row.items() if name in copied}
    columns["story"] = [list(story.sentences[lo:hi]) for lo, hi in story.windows]
    if find_column(columns, *TWIN_NAMES) is not None:
        window_twins(columns, "the row", count)
    return columns


def make_twins(
    rows: Sequence[Columns],
    server: Server,
    out: str,
    *,
    options: TwinOptions | None = None,
    attempts: int = ATTEMPTS,
    language: str = "en",
    progress: bool = False,
) -> Generated:
    """Have a language model make rows of narrative twins, for `load_story_twins` or
    `load_window_twins`, and write them.

    Args:
        rows: the stories, see `source_row`.
        options: which columns to make; default: all columns of short stories.
        language: the language of the stories, for the facts.
        server, out, attempts, progress: see `rows_by_model`, which also lists the errors.
    """
    options = options or TwinOptions()
    recipe = RECIPES[options.recipe]
    single = len(recipe.columns) == 1
    settings = {
        "recipe": options.recipe,
        "columns": [name for name in recipe.columns if single or name in options.columns],
        **model_settings(server, options.templates, attempts),
        "word overlap of a twin and its story, at most": options.twin_overlap,
        "word overlap of a distractor and its story, at least": options.distractor_overlap,
    }
    facts = DatasetFacts(
        name="Narrative twins",
        description="Stories, each with columns written by a language model:"
        f" {', '.join(settings['columns'])}.",
        source=recipe_text("narrative-twins make twins", settings),
        limits="The rows were not reviewed: the model was asked for twins with the same plot and"
        f" distractors with another one, but the plots were not checked. {LICENCE}",
        language=language,
        tags=["narrative-twins", "synthetic"],
    )

    def ask(chat: Chat, row: Columns) -> Columns:
        """Return the columns that the recipe makes for the story in a row."""
        windows = [row["story"]] if recipe.windows == 1 else row["story"]
        return recipe.make(chat.ask, windows, options)

    return rows_by_model(rows, ask, server, out, facts, attempts, progress)

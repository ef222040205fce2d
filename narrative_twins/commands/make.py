"""`narrative-twins make`: makes data to train on by a language model (twins, judgments), from
several versions of works (align), or by replacing names (entities)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from narrative_twins.books.reading import read_story_files
from narrative_twins.commands.common import (
    FILES,
    INPUT_FORMATS,
    RequestOptions,
    check_input,
    check_output,
    check_rows_file,
    on_interrupt,
    plural,
    shows_progress,
    tell,
)
from narrative_twins.commands.signatures import Choices, Count, Names, command
from narrative_twins.prompting.chat import ServerError
from narrative_twins.prompting.prompted import SAMPLES
from narrative_twins.stories.story import Story, StoryError, Windows, parse_windows
from narrative_twins.writing import STDIN, for_terminal

if TYPE_CHECKING:
    from narrative_twins.making.generated_rows import Generated

_COLUMNS = ("twin", "negative", "negative_twin")
_SHOWN_REASONS = 5
"""The number of reasons for rejecting stories that are shown."""
_INPUT = f"{FILES} The same command resumes an interrupted run."


@dataclass(frozen=True, kw_only=True)
class _Work:
    """Options of the commands that ask a language model about stories.

    Attributes:
        server (URL): OpenAI-compatible server, for example http://localhost:8000/v1.
        model (NAME): Language model on the server.
        out (FILE): Write the rows to this JSON Lines file.
        input_format: Format of the files (default: by their suffixes).
        language: Language of the stories, for the data card.
        quiet: Show no progress and no estimate.
    """

    server: str
    model: str
    out: str
    input_format: Annotated[str, INPUT_FORMATS] = "auto"
    language: str = "en"
    quiet: bool = False


def _make_rows(
    files: Sequence[str],
    work: _Work,
    requests: RequestOptions,
    parse: Callable[[Any], Any],
    make: Callable[..., Generated],
    **options: Any,
) -> int:
    """Read stories, ask a language model about them, write the rows and tell what was rejected.
    `parse` turns the content of a story into a source for `make`, or raises a `StoryError` or
    `RowError`; `make` gets all sources and `options`, asks the model and writes. Returns the exit
    code: 1 if a story could not be read or was rejected, else 0."""
    from narrative_twins.data.rows import RowError

    check_input(files)
    check_rows_file(files, work.out)
    # The file of rejected stories is overwritten too.
    check_output(files, f"{work.out}.rejects")
    sources, problems = [], 0
    for name, content, problem in read_story_files(files or [STDIN], work.input_format):
        try:
            sources.append(parse(StoryError(problem) if problem else content))
        except (StoryError, RowError) as error:
            problems += 1
            tell(f"{name}: {error.problem}")
    if not sources:
        tell("there is no story in the input")
        return 1
    options |= {"language": work.language, "attempts": requests.attempts}
    options |= {"progress": shows_progress(work.quiet)}
    server = requests.server(work.server, work.model)
    hint = f"the answers so far are in {work.out}.answers; resume with the same command"
    try:
        with on_interrupt(hint):
            generated = make(sources, server, work.out, **options)
    except ServerError as error:
        raise ServerError(f"{error}; {hint}") from None
    rejected = plural(len(generated.rejects), "story", "stories")
    written = plural(len(generated.rows), "row", "rows")
    tell(f"{work.out}: {written}; {rejected} rejected; {generated.usage}")
    reasons = Counter(f"{reject['step']}: {reject['reason']}" for reject in generated.rejects)
    for reason, number in reasons.most_common(_SHOWN_REASONS):
        tell(f"{number:,} × {reason}")
    if generated.rejects:
        tell(f"the rejected stories are in {work.out}.rejects")
    return 1 if problems or generated.rejects else 0


@command(_INPUT, extra="train")
def make_twins(
    files: Sequence[str],
    work: _Work,
    requests: RequestOptions,
    *,
    recipe: Annotated[str, Choices("making.twins", "RECIPES")] = "stories",
    columns: Annotated[Sequence[str], Names("making.twins", "COLUMNS")] = _COLUMNS,
    twin_overlap: Annotated[float, click.FloatRange(0, 1)] = 0.7,
    distractor_overlap: Annotated[float, click.FloatRange(0, 1)] = 0.5,
) -> int:
    """Have a language model write narrative twins and distractors of stories, as rows to train on.

    Args:
        files ([FILE]...): the files of the stories.
        recipe (NAME): Twins and distractors of short stories, or of synopses in five sections
            (synopses).
        columns (A,B): Texts to make (default: twin,negative,negative_twin).
        twin_overlap (X): Most word overlap with the story.
        distractor_overlap (X): Least word overlap with the story.
    """
    from narrative_twins.making.twins import TwinOptions, make_twins, source_row

    twins = TwinOptions(recipe, columns, twin_overlap, distractor_overlap, requests.prompts)
    parse = partial(source_row, options=twins)
    return _make_rows(files, work, requests, parse, make_twins, options=twins)


@command(_INPUT, extra="train")
def make_judgments(
    files: Sequence[str],
    work: _Work,
    requests: RequestOptions,
    *,
    style: Literal["choose", "shares"] = "choose",
    samples: Count = SAMPLES,
    windows: Annotated[Windows, parse_windows] = "auto",
) -> int:
    """Have a language model vote for the most important sentences of stories, as rows for
    SalienceLoss to train on.

    Args:
        files ([FILE]...): the files of the stories.
        style: Ask --samples times for the most important sentence of a window, each answer a vote,
            or once for the shares of ten votes.
        samples (N): Votes for each window, for choose.
        windows (N): A count, sizes (7,7,6), or auto (default).
    """
    from narrative_twins.making.judgments import make_judgments

    parse = partial(Story.parse, windows=windows)
    votes: Any = {"style": style, "samples": samples, "windows": windows}
    votes["prompts"] = requests.prompts
    return _make_rows(files, work, requests, parse, make_judgments, **votes)


def parse_similarities(text: str) -> dict[str, float]:
    """Parse upper limits of similarity by language. `0.6,fr=0.7` is 0.7 for French and 0.6 for all
    other languages; `fr=0.7` is 0.7 for French and the default limits for other languages."""
    from narrative_twins.making.long_twins import MAX_SIMILARITY, OTHER_LANGUAGES

    limits: dict[str, float] = {}
    for item in text.split(","):
        language, _, value = item.rpartition("=")
        try:
            limits[language.strip() or OTHER_LANGUAGES] = float(value)
        except ValueError:
            problem = f"{text!r} is not a list of similarities such as 0.6,fr=0.681"
            raise ValueError(problem) from None
    return limits if OTHER_LANGUAGES in limits else {**MAX_SIMILARITY, **limits}


@command(extra="train")
def make_align(
    files: Sequence[str],
    *,
    out: str,
    windows: Count = 5,
    encoder: str | None = None,
    pooling: Literal["checkpoint", "pooler"] = "checkpoint",
    device: str | None = None,
    min_sentences: Count = 20,
    max_difference: Annotated[float, click.FloatRange(min=0)] = 13.7,
    min_window: Count = 3,
    max_similarity: Annotated[dict[str, float], parse_similarities] | None = None,
    language: str = "en",
    anonymized: bool = False,
    released: bool = False,
    seed: int = 0,
    resume: bool = False,
    quiet: bool = False,
) -> int:
    """Make long narrative twins from several versions of a work. FILE is JSON Lines (id, story,
    twins), JSON, a folder of these or of 'Tell me again!'; - is standard input.

    Args:
        files (FILE...): the works.
        out (FILE): JSON Lines file of the rows; facts for the data card are written next to it.
        windows (N): Windows of a story.
        encoder (ENCODER): Encoder of sentences (default: the one of the package).
        pooling: Of the checkpoint (checkpoint), or its trained pooler (pooler), which SimCSE needs.
        device (NAME): Device, such as cpu (default: an accelerator, if any).
        min_sentences (N): Minimum length of a story.
        max_difference (X): Maximum difference of story and twin in sentences (default: 13.7, as in
            the paper).
        min_window (N): Minimum sentences of the twin in a window.
        max_similarity (X,L=X): Drop versions that are more similar than this, if their similarity
            is given (default: fr=0.681,de=0.674,it=0.612,es=0.591,0.6). fr=0.7 changes the limit of
            one language; a number without a language is the limit of all languages that are not
            listed with it.
        language: Language of the versions, for the facts.
        anonymized: Twins of 'Tell me again!' with replaced names.
        released: Filter as the released code of the paper; --max-difference has no effect.
        seed (N): Seed of the choice among several twins (default: 0).
        resume: Continue an interrupted run.
        quiet: Show no progress and no estimate.
    """
    check_rows_file(files, out)
    if released and STDIN in files:
        click.get_current_context().fail("--released reads the works twice; name their file")

    from transformers.utils import logging

    from narrative_twins.making.generated_rows import FACTS
    from narrative_twins.making.long_twins import (
        MAX_SIMILARITY,
        Filters,
        SentenceEmbedder,
        make_long_twins,
    )

    limits = max_similarity or MAX_SIMILARITY
    filters = Filters(windows, min_sentences, max_difference, min_window, limits, released)
    logging.disable_progress_bar()
    with on_interrupt("continue with --resume"):
        embed = SentenceEmbedder(encoder, device, pooling)
        options: Any = {"seed": seed, "anonymized": anonymized, "language": language}
        options |= {"resume": resume, "progress": shows_progress(quiet), "report": tell}
        counts = make_long_twins(files, out, embed, filters, **options)
    for words, number in sorted(counts.items()):
        print(f"{number:>9,}  {words}")
    if not counts["works kept, with a twin"]:
        return 1
    print(for_terminal(f"\n{out}, with its facts {Path(out).with_suffix(FACTS)}"))
    return 1 if counts["works that are invalid"] else 0


@command(extra="entities")
def make_entities(
    rows: str,
    *,
    out: str,
    pipeline: str = "en_core_web_sm",
    names: str = "en_US",
    seed: int = 0,
    resume: bool = False,
    quiet: bool = False,
) -> int:
    """Replace the names of people, places, organizations and other entities in narrative twins: the
    twin of a story and the twin of the distractor get names that occur nowhere else in the row.
    Names are recognized by a spaCy pipeline.

    Args:
        rows (FILE): the rows.
        out (FILE): JSON Lines file of the rows; facts for the data card are written next to it.
        pipeline (NAME): spaCy pipeline.
        names (LOCALE): Locale of Faker.
        seed (N): Seed of the draw of names (default: 0).
        resume: Continue an interrupted run.
        quiet: Show no progress and no estimate.
    """
    check_rows_file([rows], out)

    from narrative_twins.making.entities import replace_entities

    with on_interrupt("continue with --resume"):
        options: Any = {"names": names, "seed": seed, "resume": resume}
        options["progress"] = shows_progress(quiet)
        changed = replace_entities(rows, out, pipeline, **options)
    hint = "" if changed else "; is there a twin, and does the pipeline recognize entities?"
    tell(f"names are replaced in {plural(changed, 'row', 'rows')}{hint}")
    return 0

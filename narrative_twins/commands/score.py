"""`narrative-twins score` and `report`: the salience of stories as text, data, pages or images."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from narrative_twins.commands.options import (
    COUNT,
    check_input,
    command,
    encoder_options,
    on_interrupt,
    option,
    quiet_option,
    resume_hint,
    resume_option,
    scoring_options,
    shows_progress,
    usage_errors,
)
from narrative_twins.commands.outputs import REPORT, Output, output_options
from narrative_twins.commands.stories import (
    FILES,
    StoryFormat,
    StoryInput,
    files_argument,
    story_options,
)
from narrative_twins.files import ResumableFile
from narrative_twins.salience.options import SCORING_OPTIONS, checked_options
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.reading import story_digest

if TYPE_CHECKING:
    from narrative_twins.encoder.story_encoder import StoryEncoder
    from narrative_twins.salience.operations import Operation


@command(f"Score every sentence of stories. {FILES}")
@files_argument
@story_options
@scoring_options()
@encoder_options()
@output_options()
@resume_option
@quiet_option
def score(
    files: Sequence[str],
    form: StoryFormat,
    scoring: dict[str, Any],
    loading: dict[str, Any],
    output: Output,
    resume: bool,
    quiet: bool,
) -> int:
    """Read, score, write."""
    return _score(files, form, scoring, loading, output, resume, quiet)


@command(
    "Score every sentence of stories, and write a folder of pages: one per story, and an index to"
    f" search and sort, which opens from disk. {FILES} For a long run, save scores with `score`,"
    " which can be resumed, and make the report of them with `show --format report`."
)
@files_argument
@story_options
@scoring_options()
@encoder_options()
@option("-o", "--out", required=True, metavar="FOLDER", help="Appears when it is complete.")
@option("--top", type=COUNT, metavar="K", help="Show only the K most salient sentences.")
@quiet_option
def report(
    files: Sequence[str],
    form: StoryFormat,
    scoring: dict[str, Any],
    loading: dict[str, Any],
    out: str,
    top: int | None,
    quiet: bool,
) -> int:
    """Read, score, write."""
    return _score(files, form, scoring, loading, Output(out, REPORT, top), False, quiet)


def _score(
    files: Sequence[str],
    form: StoryFormat,
    scoring: Mapping[str, Any],
    loading: Mapping[str, Any],
    output: Output,
    resume: bool,
    quiet: bool,
) -> int:
    check_input(files)
    output.check(files)
    if resume and not output.is_resumable:
        raise click.UsageError("--resume needs --format jsonl and --out FILE")
    with usage_errors():
        options: Mapping[str, Any] = checked_options(scoring)
    # Reports an output that can't be written before the encoder is loaded.
    out, done = output.target(), list[str]()
    encoder = load_encoder(loading)
    if output.is_resumable:
        settings = run_settings(scoring, options["operations"], loading, encoder)
        settings |= {"score headings": form.score_headings, "top": output.top}
        out = ResumableFile(output.out, settings, resume)
        done = _digests(out)
    stories = StoryInput(files, form, scoring, done, loading["model"])
    with on_interrupt(lambda: resume_hint(output.out) if output.is_resumable else None):
        results = scored(stories, encoder, options, shows_progress(quiet))
        output.write(results, out, lambda: stories.problems)
    return 1 if stories.problems else 0


def load_encoder(loading: Mapping[str, Any]) -> StoryEncoder:
    """Load the encoder that the options name."""
    from narrative_twins.encoder.loading import no_progress_bars
    from narrative_twins.encoder.story_encoder import StoryEncoder

    given = {name: value for name, value in loading.items() if name != "model"}
    if given["revision"] is None:
        del given["revision"]
    with no_progress_bars():
        return StoryEncoder.from_pretrained(loading["model"], **given)


def run_settings(
    scoring: Mapping[str, Any],
    operations: Iterable[Operation],
    loading: Mapping[str, Any],
    encoder: StoryEncoder,
) -> dict[str, Any]:
    """All that scores depend on, as JSON data: a run is resumed with the same settings only."""
    from narrative_twins.encoder.loading import encoder_settings

    settings = encoder_settings(loading["model"], encoder)
    for name, value in scoring.items():
        if SCORING_OPTIONS[name].affects_scores:
            settings[name.replace("_", " ")] = value
    return settings | {"operations": [operation.name for operation in operations]}


def scored(
    stories: StoryInput, encoder: StoryEncoder, options: Mapping[str, Any], progress: bool
) -> Iterator[StorySalience]:
    """Score the stories, lazily; those that can't be scored are reported and skipped."""
    from narrative_twins.salience.engine import score_stories

    chosen = {**options, "on_error": stories.report, "progress": progress}
    if options["on_truncation"] == "warn":
        # The engine does not know the file and the line of a story.
        stories.warn_of_truncation = True
        chosen["on_truncation"] = "ignore"
    with _dropped_interrupts() as dropped:
        for result in stories.renumber(score_stories(stories, encoder, **chosen)):
            if dropped:
                raise KeyboardInterrupt
            yield result


@contextmanager
def _dropped_interrupts() -> Iterator[list[Any]]:
    """The interrupts that Python would print and drop, since they were raised in callbacks of the
    garbage collector, which run often while matplotlib draws: Ctrl-C must not be lost."""
    dropped: list[Any] = []
    print_dropped = sys.unraisablehook

    def keep_interrupt(found: Any) -> None:
        if isinstance(found.exc_value, KeyboardInterrupt):
            dropped.append(found.exc_type)
        else:
            print_dropped(found)

    sys.unraisablehook = keep_interrupt
    try:
        yield dropped
    finally:
        sys.unraisablehook = print_dropped


def _digests(out: ResumableFile) -> list[str]:
    """The digests of the stories in the output of an earlier run, in order. Raises `ResumeError` if
    it is invalid."""
    digests = []
    for number, row in enumerate(out.rows(), start=1):
        try:
            digests.append(story_digest(row.get("id"), row["sentences"], row["windows"]))
        except (KeyError, TypeError, AttributeError, ValueError):
            raise out.not_resumable(number, "is not a result of this command") from None
    return digests

"""`narrative-twins score` and `report`: the salience of stories as text, data, pages or images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from narrative_twins.commands.options import (
    COUNT,
    check_input,
    command,
    encoder_options,
    on_interrupt,
    option,
    quiet_option,
    resume_option,
    scoring_options,
    usage_errors,
    watch,
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
from narrative_twins.salience.options import checked_options, score_settings
from narrative_twins.stories.reading import story_digest

if TYPE_CHECKING:
    from narrative_twins.encoder.story_encoder import StoryEncoder


@command(f"Score every sentence of stories. {FILES}")
@files_argument
@story_options
@scoring_options()
@encoder_options()
@output_options()
@resume_option
@quiet_option
def score(**given: Any) -> int:
    """Read, score, write."""
    return _score(**given)


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
def report(out: str, top: int | None, **given: Any) -> int:
    """Read, score, write."""
    return _score(output=Output(out, REPORT, top), resume=False, **given)


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
    output.check(files, resume)
    with usage_errors():
        options: Any = checked_options(scoring)
    # Reports an output that can't be written before the encoder is loaded.
    out, done = output.target(), list[str]()
    encoder = load_encoder(loading)
    if output.is_resumable:
        settings = run_settings(scoring, loading, encoder)
        settings |= {"score headings": form.score_headings, "top": output.top}
        out = ResumableFile(output.out, settings, resume)
        done = _digests(out)
    stories = StoryInput(files, form, scoring, done, loading["model"])
    options["progress"] = watch(quiet)
    with on_interrupt(out=output.out if output.is_resumable else ""):
        output.write(stories.results(encoder, options), out, lambda: stories.problems)
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
    scoring: Mapping[str, Any], loading: Mapping[str, Any], encoder: StoryEncoder
) -> dict[str, Any]:
    """All that scores depend on, as JSON data: a run is resumed with the same settings only."""
    from narrative_twins.encoder.loading import encoder_settings

    return encoder_settings(loading["model"], encoder) | score_settings(scoring)


def _digests(out: ResumableFile) -> list[str]:
    """The digests of the stories in the output of an earlier run, in order. Raises `ResumeError` if
    it is invalid."""
    digests = []
    for number, row in enumerate(out.rows(), start=1):
        try:
            digests.append(story_digest(row.get("id"), row["sentences"], row["windows"]))
        except (KeyError, TypeError):
            raise out.not_resumable(number, "is not a result of this command") from None
    return digests

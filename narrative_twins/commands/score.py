"""`narrative-twins score`: the salience of stories as text, data, pages or images."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from narrative_twins.commands.options import (
    check_input,
    command,
    encoder_options,
    on_interrupt,
    quiet_option,
    resume_option,
    scoring_options,
    tell,
    usage_errors,
    watch,
)
from narrative_twins.commands.outputs import ResultOutput, output_options
from narrative_twins.commands.stories import (
    FILES,
    StoryFormat,
    StoryInput,
    files_argument,
    story_options,
)
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.show.formats import result_data
from narrative_twins.stories.reading import story_digest
from narrative_twins.writing import JsonlLog

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
def score(
    files: Sequence[str],
    form: StoryFormat,
    scoring: Mapping[str, Any],
    loading: Mapping[str, Any],
    output: ResultOutput,
    resume: bool,
    quiet: bool,
) -> int:
    """Read, score, write."""
    check_input(files)
    output.check(files, resume)
    with usage_errors():
        options = ScoringOptions(**scoring, progress=watch(quiet))
    if output.is_resumable:
        return _score_into_log(files, form, options, loading, output, resume)
    stories = StoryInput(files, form, options)
    output.write(stories.results(load_encoder(loading), options))
    return 1 if stories.problems else 0


def _score_into_log(
    files: Sequence[str],
    form: StoryFormat,
    options: ScoringOptions,
    loading: Mapping[str, Any],
    output: ResultOutput,
    resume: bool,
) -> int:
    """Score into a log of results next to the output, which it becomes when it is complete."""
    if resume and os.path.exists(output.out) and not os.path.exists(f"{output.out}.part"):
        tell(f"{output.out} is complete; to score again, leave out --resume")
        return 0
    encoder = load_encoder(loading)
    settings = run_settings(options, loading, encoder)
    settings |= {"score headings": form.score_headings, "top": output.top}
    log = JsonlLog(f"{output.out}.part", settings, resume)
    stories = StoryInput(files, form, options, _digests(log))
    with on_interrupt(f"results so far are in {log.path}; continue with --resume"), log:
        for result in stories.results(encoder, options):
            log.append(result_data(result, output.top))
    log.complete(output.out)
    return 1 if stories.problems else 0


def load_encoder(loading: Mapping[str, Any]) -> StoryEncoder:
    """Load the encoder that the options name."""
    from narrative_twins.encoder.loading import no_progress_bars
    from narrative_twins.encoder.story_encoder import StoryEncoder

    options = {name: value for name, value in loading.items() if name != "model"}
    if options["revision"] is None:
        del options["revision"]
    with no_progress_bars():
        return StoryEncoder.from_pretrained(loading["model"], **options)


def run_settings(
    options: ScoringOptions, loading: Mapping[str, Any], encoder: StoryEncoder
) -> dict[str, Any]:
    """All that scores depend on, as JSON data: a run is resumed with the same settings only."""
    from narrative_twins.encoder.loading import encoder_settings

    return encoder_settings(loading["model"], encoder) | options.settings()


def _digests(log: JsonlLog) -> list[str]:
    """The digests of the stories in a log, in order. Raises `ResumeError` for another row."""
    digests = []
    for number, row in enumerate(log.rows):
        try:
            digests.append(story_digest(row.get("id"), row["sentences"], row["windows"]))
        except (KeyError, TypeError):
            raise log.error(number, "is not a result of this command") from None
    return digests

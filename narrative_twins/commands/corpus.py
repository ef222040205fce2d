"""`narrative-twins corpus`: scores a corpus into a folder of shards."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import click
from tqdm import tqdm

from narrative_twins.books.story_files import count_story_files, files_of, skipped_files
from narrative_twins.commands.encoder_options import EncoderOptions
from narrative_twins.commands.files import check_input, check_output
from narrative_twins.commands.messages import on_interrupt, shows_progress, tell
from narrative_twins.commands.scoring_options import scoring_options
from narrative_twins.commands.signatures import Count, command
from narrative_twins.commands.story_options import FILES, StoryFormat
from narrative_twins.salience.options import FAST, ScoringOptions
from narrative_twins.salience.wording import other_language, single_sentences
from narrative_twins.text import counted, for_terminal
from narrative_twins.writing import STDIN

if TYPE_CHECKING:
    from narrative_twins.corpora.run import CorpusRun


def _job(text: str) -> tuple[int, int]:
    """Parse the number of a job and the number of all jobs: `2/8` as `(2, 8)`."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"{text!r} is not a job, such as 1/8 to 8/8")
    return int(match[1]), int(match[2])


@command(f"{FILES} A FILE may also be a pattern in quotes.", extra="train")
def corpus(
    files: Sequence[str],
    form: StoryFormat,
    scoring: Annotated[ScoringOptions, scoring_options(**FAST)],
    encoder: EncoderOptions,
    *,
    out: str,
    shard: Annotated[tuple[int, int], _job] = (1, 1),
    shard_rows: Count = 1000,
    quiet: bool = False,
) -> int:
    """Score the stories of a corpus into FOLDER, as shards in Parquet. The same command resumes an
    interrupted run.

    Args:
        files ([FILE]...): the files of the stories.
        out (FOLDER): Folder of the shards.
        shard (I/N): Score every N-th shard only, as job I of N; all jobs may write to one
            folder (default: 1/1).
        shard_rows (N): Rows of a shard.
        quiet: Show no progress.
    """
    check_input(files)
    if out == STDIN or os.path.isfile(out):
        raise click.UsageError("the shards are files in a folder; name a folder with --out")
    sources = _Sources(files or [STDIN], form)
    check_output([*files, *sources.files], out)

    from narrative_twins.corpora.run import score_corpus
    from narrative_twins.corpora.scorer import StoryScorer

    warns = scoring.on_truncation == "warn"
    scoring_of_shards = replace(
        scoring,
        splitter=form.splitter(scoring.splitter),
        processes=1,  # processes share shards, not the stories of a shard
        on_error="skip",
        # The result says which stories are truncated; they are counted below.
        on_truncation="ignore" if warns else scoring.on_truncation,
    )
    shown = shows_progress(quiet)
    total = count_story_files(sources.files, form.input_format) if shown else 0
    scorer = StoryScorer(encoder.model, loading=encoder.loading, options=scoring_of_shards)
    options: Any = {"rows": shard_rows, "job": shard, "processes": scoring.processes}
    options |= {"settings": form.settings(), "columns": form.columns}
    bar = tqdm(total=total or None, desc="scoring", unit=" stories", disable=not shown)
    with on_interrupt(f"the shards in {out} are complete; the same command continues"), bar:
        done = score_corpus(sources, out, scorer, on_progress=bar.update, **options)
    if not done.rows:
        tell("there is no story in the input")
    elif not quiet:
        tell(_summary(done, out, truncated=done.truncated if warns else 0))
    if note := single_sentences(done.single, done.rows):
        tell(note)
    notes = filter(None, map(other_language, done.beginning))
    if (
        scorer.encoder.is_english
        and scoring.on_truncation != "ignore"
        and (note := next(notes, ""))
    ):
        tell(f"the text of a story {note} (reported once)")
    return 1 if done.errors else 0


def _summary(done: CorpusRun, out: str, truncated: int) -> str:
    """Return what a run has written to the folder `out`, in words."""
    notes = [f"{done.added:,} new"]
    if done.errors:
        notes.append(f"{done.errors:,} not scored, see the column `error`")
    if truncated:
        notes.append(f"{truncated:,} truncated, see the column `truncated`")
    stories, shards = counted(done.rows, "story", "stories"), counted(done.shards, "shard")
    return f"{stories} in {shards} in {out} ({'; '.join(notes)})"


class _Sources:
    """The files that paths or patterns name, each once. Yields for each file its name and an
    iterator over its documents."""

    def __init__(self, paths: Sequence[str], form: StoryFormat) -> None:
        self.form = form
        named: dict[str, str] = {}
        if skipped := skipped_files(paths):
            tell(skipped)
        for path in paths:
            matching = [] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
            for file in files_of(matching or [path]):
                name = os.path.normpath(file) if os.path.exists(file) else file
                named.setdefault(os.path.realpath(file), name)
        self.files = list(named.values())

    def __iter__(self) -> Iterator[tuple[str, Iterator[Any]]]:
        for file in self.files:
            yield "standard input" if file == STDIN else for_terminal(file), self._rows(file)

    def _rows(self, file: str) -> Iterator[Any]:
        """Yield the stories and errors in a file. The user is told if the file can't be read."""
        for document in self.form.read([file]):
            is_of_file = document.name in (for_terminal(file), "standard input")
            if document.problem is not None and is_of_file:
                tell(f"{document.name}: {document.problem}")
            yield document

"""`narrative-twins corpus`: a corpus scored into a folder of shards."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
from tqdm import tqdm

from narrative_twins.commands.options import (
    COUNT,
    Parsed,
    check_input,
    check_output,
    command,
    encoder_options,
    on_interrupt,
    option,
    plural,
    quiet_option,
    scoring_options,
    shows_progress,
    tell,
    usage_errors,
    watch,
)
from narrative_twins.commands.stories import (
    FILES,
    SUFFIXES,
    StoryFormat,
    count_inputs,
    files_argument,
    is_on_hub,
    read_inputs,
    story_options,
)
from narrative_twins.salience.options import FAST, ScoringOptions
from narrative_twins.stories.reading import document_of, files_of, story_in_column
from narrative_twins.stories.story import StoryError
from narrative_twins.writing import STDIN, for_terminal

_ROWS = 1000
_HUB_PATH = re.compile(
    r"hf://datasets/(?P<id>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?(/(?P<inside>.*))?"
)
_BUILDERS = {"parquet": "parquet", "csv": "csv"} | dict.fromkeys(
    ["json", "jsonl", "ndjson"], "json"
)


def _job(text: str) -> tuple[int, int]:
    """The number and the count of jobs, such as 2/8."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"{text!r} is not a job, such as 1/8 to 8/8")
    return int(match[1]), int(match[2])


@command(
    "Score the stories of a corpus into FOLDER, as shards in Parquet. The same command resumes an"
    f" interrupted run. {FILES} A FILE may also be a pattern in quotes.",
    extra="train",
)
@files_argument
@option("-o", "--out", required=True, metavar="FOLDER", help="Folder of the shards.")
@option(
    "--shard",
    "job",
    type=Parsed(_job),
    default=(1, 1),
    metavar="I/N",
    help="Job I of N, which write to one folder.",
)
@option(
    "--shard-rows",
    type=COUNT,
    default=_ROWS,
    show_default=True,
    metavar="N",
    help="Rows of a shard.",
)
@story_options
@scoring_options(**FAST)
@encoder_options()
@quiet_option
def corpus(
    files: Sequence[str],
    out: str,
    job: tuple[int, int],
    shard_rows: int,
    form: StoryFormat,
    scoring: dict[str, Any],
    loading: dict[str, Any],
    quiet: bool,
) -> int:
    """Score the stories into the folder, and say what it has."""
    check_input(files)
    if out == STDIN or os.path.isfile(out):
        raise click.UsageError("the shards are files in a folder; name a folder with --out")
    sources = _Sources(files or [STDIN], form)
    check_output([*files, *sources.files], out)
    with usage_errors():
        ScoringOptions(**scoring)

    from narrative_twins.corpora.run import score_corpus
    from narrative_twins.corpora.scorer import StoryScorer

    processes, warns = scoring.pop("processes"), scoring["on_truncation"] == "warn"
    scoring["splitter"] = form.splitter(scoring["splitter"])
    if warns:
        # The result says which stories are truncated; they are counted below.
        scoring["on_truncation"] = "ignore"
    shown = shows_progress(quiet)
    total = count_inputs(sources.files, form.input_format) if shown else 0
    if total and processes == 1:  # other processes would not know of it
        scoring["progress"] = replace(watch(quiet, max(1, total / job[1] / shard_rows)), bar=False)
    scorer = StoryScorer(loading.pop("model"), loading=loading, **scoring)
    hint = f"the shards in {out} are complete; the same command continues"
    with (
        on_interrupt(hint),
        tqdm(total=total or None, desc="scoring", unit=" stories", disable=not shown) as bar,
    ):
        done = score_corpus(
            sources,
            out,
            scorer,
            rows=shard_rows,
            job=job,
            processes=processes,
            settings={"column": form.column},
            on_progress=bar.update,
        )
    if not done.rows:
        tell("there is no story in the input")
    elif not quiet:
        notes = [f"{done.added:,} new"]
        if done.errors:
            notes.append(f"{done.errors:,} not scored, see the column `error`")
        if done.truncated and warns:
            notes.append(f"{done.truncated:,} truncated, see the column `truncated`")
        stories = plural(done.rows, "story", "stories")
        shards = plural(done.shards, "shard", "shards")
        tell(f"{stories} in {shards} in {out} ({'; '.join(notes)})")
    return 1 if done.errors else 0


class _Sources:
    """The sources that files and patterns name, with their rows: each file once, by its first name.
    A file that can't be read is a row with an error."""

    def __init__(self, paths: Sequence[str], form: StoryFormat) -> None:
        self.form = form
        named: dict[str, str] = {}
        for path in paths:
            matching = [] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
            for file in files_of(matching or [path], SUFFIXES):
                if os.path.exists(file):
                    named.setdefault(os.path.realpath(file), os.path.normpath(file))
                else:
                    named.setdefault(file, file)
        self.files = list(named.values())

    def __iter__(self) -> Iterator[tuple[str, Iterator[Any]]]:
        for file in self.files:
            if self.form.input_format == "auto" and is_on_hub(file):
                for name, rows in _on_hub(file).items():
                    yield name, map(self._story, rows)
            else:
                yield "standard input" if file == STDIN else for_terminal(file), self._rows(file)

    def _rows(self, file: str) -> Iterator[Any]:
        for name, content, problem in read_inputs([file], self.form):
            if problem is not None and name in (for_terminal(file), "standard input"):
                tell(f"{name}: {problem}")
            yield content if problem is None else StoryError(problem)

    def _story(self, row: Any) -> Any:
        _, content, problem = document_of("", story_in_column, row, self.form.column)
        return content if problem is None else StoryError(problem)


def _on_hub(name: str) -> Mapping[str, Any]:
    """The splits of a data set on the Hub, or the rows of files in one, as they are streamed."""
    from datasets import load_dataset

    path = _HUB_PATH.fullmatch(name)
    inside = path["inside"] if path else None
    if not inside:
        id, revision = (path["id"], path["revision"]) if path else (name, None)
        splits = load_dataset(id, revision=revision, streaming=True)
        return {f"{name}, {split}": rows for split, rows in splits.items()}
    builder = _BUILDERS.get(inside.rpartition(".")[2].lower())
    if builder is None:
        suffixes = ", ".join(f".{suffix}" for suffix in _BUILDERS)
        raise ValueError(f"{name}: name files that end in {suffixes}, or the data set alone")
    return {name: load_dataset(builder, data_files=name, split="train", streaming=True)}

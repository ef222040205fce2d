"""`narrative-twins score --format parquet`: a corpus scored into a folder of shards."""

from __future__ import annotations

import argparse
import glob
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from narrative_twins.commands.options import check_output, count, plural
from narrative_twins.commands.rows import SUFFIXES, count_inputs, is_on_hub, read_inputs
from narrative_twins.files import STDIN
from narrative_twins.stories.books.reading import printable_name
from narrative_twins.stories.reading import files_of
from narrative_twins.stories.splitting import SPLITTERS
from narrative_twins.stories.story import StoryError

if TYPE_CHECKING:
    from narrative_twins.corpora.run import CorpusRun

PARQUET = "parquet"
"""The name of the format."""

_ROWS = 1000
_HUB_PATH = re.compile(
    r"hf://datasets/(?P<id>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?(/(?P<inside>.*))?"
)
_BUILDERS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


def job(text: str) -> tuple[int, int]:
    """The number and the count of jobs, such as 2/8, for `argparse`."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the number of a job and how many there are, as 1/8 to 8/8"
        )
    return int(found[1]), int(found[2])


def add_corpus_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of shards."""
    group = parser.add_argument_group(
        "corpora", "--format parquet --out FOLDER; the same command goes on with a run"
    )
    group.add_argument(
        "--shard", type=job, metavar="I/N", help="job I of N, which write to one folder"
    )
    group.add_argument(
        "--shard-rows", type=count, metavar="N", help=f"rows of a shard (default: {_ROWS})"
    )


def check_corpus_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other, and set the format if the output is a folder."""
    if options.format is None and (options.out.endswith(os.sep) or os.path.isdir(options.out)):
        options.format = PARQUET
    if options.format != PARQUET and options.shard is options.shard_rows is None:
        if options.out.lower().endswith(".parquet"):
            parser.error(
                f"--out {options.out}: Parquet is a folder of shards here; --format parquet --out"
                " FOLDER"
            )
        return
    if options.format != PARQUET:
        parser.error("--shard and --shard-rows need --format parquet")
    if options.out == STDIN or os.path.splitext(options.out)[1].lower() in (
        *_BUILDERS,
        ".txt",
        ".html",
    ):
        parser.error("--format parquet writes a folder of shards; name one with --out FOLDER")
    check_output(parser, _expanded(options.files), options.out)
    if options.top is not None or options.share is not None:
        parser.error("--top and --share do not apply to --format parquet, which has all sentences")


def _expanded(paths: Sequence[str]) -> list[str]:
    """The paths, with each pattern replaced by what it matches, if that is anything."""
    matching = (
        sorted(glob.glob(path, recursive=True)) if not os.path.exists(path) else []
        for path in paths
    )
    return [name for path, found in zip(paths, matching, strict=True) for name in found or [path]]


class _Sources:
    """The sources that the options name, with their rows; tells of files that can't be read, and
    counts them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.problems = options, 0
        files = files_of(_expanded(options.files or [STDIN]), SUFFIXES)
        named: dict[str, str] = {}
        for file in files:
            # Each file once, by its first name.
            is_local = os.path.exists(file)
            named.setdefault(
                os.path.realpath(file) if is_local else file,
                os.path.normpath(file) if is_local else file,
            )
        self.files = list(named.values())

    def __iter__(self) -> Iterator[tuple[str, Iterator[Any]]]:
        for file in self.files:
            if self.options.input_format == "auto" and is_on_hub(file):
                yield from self._on_hub(file)
            else:
                yield "standard input" if file == STDIN else printable_name(file), self._rows(file)

    def _rows(self, file: str) -> Iterator[Any]:
        options = self.options
        for name, content, problem in read_inputs([file], options.input_format, options.column):
            if problem is not None and name in (printable_name(file), "standard input"):
                # Of the file as a whole: it may be readable next time, so this is not recorded.
                self.problems += 1
                tqdm.write(f"narrative-twins: {name}: {problem}", file=sys.stderr)
            elif problem is not None:
                yield StoryError(problem)
            else:
                is_table = options.input_format == "csv" or file.lower().endswith((".csv", ".tsv"))
                yield (
                    content
                    if options.column is None or is_table
                    else _chosen(content, options.column)
                )

    def _on_hub(self, name: str) -> Iterator[tuple[str, Iterator[Any]]]:
        """The splits of a data set, or the rows of files in one, as they are streamed."""
        from datasets import load_dataset

        path = _HUB_PATH.fullmatch(name)
        inside = path["inside"] if path else None
        if inside:
            builder = _BUILDERS.get(os.path.splitext(inside)[1].lower())
            if builder is None:
                raise ValueError(
                    f"{name}: name files that end in {', '.join(_BUILDERS)}, or the data set alone"
                )
            yield (
                name,
                self._streamed(
                    load_dataset(builder, data_files=name, split="train", streaming=True)
                ),
            )
            return
        splits = load_dataset(
            path["id"] if path else name,
            revision=path["revision"] if path else None,
            streaming=True,
        )
        for split, rows in splits.items():
            yield f"{name}, {split}", self._streamed(rows)

    def _streamed(self, rows: Any) -> Iterator[Any]:
        column = self.options.column
        for row in rows:
            yield row if column is None else _chosen(row, column)


def _chosen(content: Any, column: str) -> Any:
    """The story in a column of a row, with the id of the row."""
    if not isinstance(content, Mapping) or column not in content:
        columns = ", ".join(map(str, content)) if isinstance(content, Mapping) else "no columns"
        return StoryError(
            f"the row has no column {column!r} (it has {columns[:500]}); name one of them with"
            " --column"
        )
    story = content[column]
    return {"id": content.get("id"), "text" if isinstance(story, str) else "sentences": story}


def run_corpus(options: argparse.Namespace) -> int:
    """Score the stories that the options name into a folder of shards; returns the exit code."""
    from narrative_twins.corpora.run import score_corpus
    from narrative_twins.corpora.scorer import StoryScorer

    scorer = StoryScorer(
        options.model,
        operations=options.operations,
        windows=options.windows,
        splitter=SPLITTERS[options.split] if options.score_headings else options.split,
        approximate=options.approximate,
        max_shifts=options.max_shifts,
        batch_size=options.batch_size,
        # The result says which stories are truncated; they are counted below.
        on_truncation="error" if options.on_truncation == "error" else "ignore",
        loading={
            "device": options.device,
            "dtype": options.dtype,
            "context_tokens": options.context_tokens,
            "backend": options.backend,
        },
    )
    sources = _Sources(options)
    hidden = options.quiet or not sys.stderr.isatty()
    total = 0 if hidden else count_inputs(sources.files, options.input_format)
    with tqdm(total=total or None, desc="scoring", unit=" stories", disable=hidden) as bar:
        done = score_corpus(
            sources,
            options.out,
            scorer,
            rows=options.shard_rows or _ROWS,
            job=options.shard or (1, 1),
            processes=options.processes,
            settings={"column": options.column},
            on_progress=bar.update,
        )
    return _summary(options, done, sources.problems)


def _summary(options: argparse.Namespace, done: CorpusRun, problems: int) -> int:
    """Tell what the folder has; returns the exit code."""
    if not options.quiet and done.rows:
        stories, shards = (
            plural(done.rows, "story", "stories"),
            plural(done.shards, "shard", "shards"),
        )
        notes = [f"{done.added:,} new"]
        if done.errors:
            notes.append(f"{done.errors:,} not scored, see the column `error`")
        if done.truncated and options.on_truncation == "warn":
            notes.append(
                f"{done.truncated:,} longer than the encoder reads at once, see the column"
                " `truncated`"
            )
        print(
            f"narrative-twins: {stories} in {shards} in {options.out} ({'; '.join(notes)})",
            file=sys.stderr,
        )
    elif not done.rows:
        print("narrative-twins: there is no story in the input", file=sys.stderr)
    return 1 if problems or done.errors else 0

"""A run over a corpus: its rows in blocks, each block one shard of Parquet. A shard that exists is
complete, so an interrupted run goes on with the shards that are missing."""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from narrative_twins.corpora.scorer import StoryScorer
from narrative_twins.salience.processes import in_processes
from narrative_twins.writing import ResumeError, atomic_write, difference

ROWS = 1000
"""Rows of a shard: few enough to be held at once and to lose little, and many enough for a forward
pass."""
SETTINGS = "_run.json"
"""The file of the settings. Readers of Parquet leave out names that begin like this."""

Job: TypeAlias = tuple[int, int]
"""The number of a job, from 1, and how many there are."""


class CorpusRow(NamedTuple):
    """A row of a source: the name of the source, the number of the row in it, and its story."""

    source: str
    number: int
    story: Any


@dataclass
class CorpusRun:
    """What a folder of shards has of one job.

    Attributes:
        rows, errors, truncated: how many rows there are; of these, rows with an error, and rows
            whose story was truncated.
        shards: how many files.
        added: the rows that were scored by this call.
    """

    rows: int = 0
    errors: int = 0
    truncated: int = 0
    shards: int = 0
    added: int = 0

    def count(self, shard: pyarrow.Table, is_new: bool) -> None:
        """Add a shard."""
        self.shards += 1
        self.rows += shard.num_rows
        self.errors += shard.num_rows - shard["error"].null_count
        self.truncated += pyarrow.compute.sum(shard["truncated"]).as_py() or 0
        self.added += shard.num_rows * is_new


def score_corpus(
    sources: Iterable[tuple[str, Iterable[Any]]],
    folder: str | Path,
    scorer: StoryScorer,
    *,
    rows: int = ROWS,
    job: Job = (1, 1),
    processes: int = 1,
    settings: Mapping[str, Any] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> CorpusRun:
    """Score a corpus into shards of Parquet, or resume that.

    A shard has a row for each story: its `source` and `row` (from 0) there, its `id`, and the
    columns of `COLUMNS`. Whenever the process ends, the next call scores the shards that are
    missing. The input must be the same; only at its end there may be more rows and sources.

    Args:
        sources: names of sources with their rows, each a story in any form that `Story.parse`
            accepts, or a `StoryError`. The rows are read lazily, one source after the other.
        folder: of the shards; it is made if it does not exist.
        scorer: scores the stories, a shard at a time, so that scores don't depend on where a run
            was interrupted.
        rows: of a shard; twice `processes` shards are held at once.
        job: number and count of one of several jobs, perhaps on several machines, that write to one
            folder: job I of N scores every N-th shard.
        processes: how many processes score, each a shard at a time; see `ScoringOptions`.
        settings: further settings of the caller that the rows depend on, as JSON data by name.
        on_progress: is called with the number of rows whenever a shard is complete.

    Raises:
        ResumeError: the folder has scores by other settings, or of other rows.
        OSError: the folder can't be written; the shards in it stay valid.
        ValueError: an argument is invalid.
    """
    if rows < 1 or not 1 <= job[0] <= job[1]:
        raise ValueError(f"rows={rows}, job={job}: both are counted from 1")
    folder, run = Path(folder), CorpusRun()
    folder.mkdir(exist_ok=True)
    _check_settings(folder, {**scorer.settings, **(settings or {}), "rows of a shard": rows})
    if processes > 1:
        scorer.unload()
    unscored: deque[tuple[Path, list[CorpusRow]]] = deque()  # whose scores are awaited, in order

    def complete(shard: pyarrow.Table, is_new: bool) -> None:
        run.count(shard, is_new)
        if on_progress is not None:
            on_progress(shard.num_rows)

    def stories() -> Iterator[list[Any]]:
        for path, block in _blocks(sources, folder, rows, job):
            shard = _read(path, block)
            if shard is not None:
                complete(shard, is_new=False)
                continue
            unscored.append((path, block))
            yield [row.story for row in block]

    tables = (
        in_processes(scorer.start, stories(), processes)
        if processes > 1
        else (scorer.table(block) for block in stories())
    )
    with closing(tables):
        for scores in tables:
            complete(_write(*unscored.popleft(), scores), is_new=True)
    return run


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise a `ResumeError` if the folder has scores by other settings; write them if it is new."""
    path, now = folder / SETTINGS, json.loads(json.dumps(settings))
    if path.exists():
        if changed := difference(json.loads(path.read_text(encoding="utf-8")), now):
            raise ResumeError(f"{folder} was started with {changed}; choose another folder")
        return
    if any(folder.glob("scores-*")):
        raise FileExistsError(f"{folder} has scores, but no {SETTINGS}; choose another folder")
    with atomic_write(path) as file:
        file.write(json.dumps(now, indent=1) + "\n")


def _blocks(
    sources: Iterable[tuple[str, Iterable[Any]]], folder: Path, rows: int, job: Job
) -> Iterator[tuple[Path, list[CorpusRow]]]:
    """The blocks of a job, each with the path of its shard."""
    every = (
        CorpusRow(source, number, story)
        for source, stories in sources
        for number, story in enumerate(stories)
    )
    for number, block in enumerate(iter(lambda: list(islice(every, rows)), [])):
        if number % job[1] == job[0] - 1:
            yield folder / f"scores-{number:05}.parquet", block


def _read(path: Path, block: list[CorpusRow]) -> pyarrow.Table | None:
    """The shard of a block, as far as it is counted; None if it is missing, torn by a crash of the
    machine, or was the end of an input that has grown. Raises a `ResumeError` if it has other
    rows."""
    if not path.exists():
        return None
    try:
        shard = pyarrow.parquet.read_table(
            path, columns=["source", "row", "id", "error", "truncated"], partitioning=None
        )
    except (pyarrow.ArrowException, OSError):
        return None
    rows = list(zip(*(shard[name].to_pylist() for name in ("source", "row", "id")), strict=True))
    now = [(row.source, row.number, _id(row.story)) for row in block]
    if rows != now[: len(rows)]:
        raise ResumeError(
            f"{path} has other rows than the input; name the files as before, or choose another"
            " folder"
        )
    return shard if len(rows) == len(now) else None


def _write(path: Path, block: list[CorpusRow], scores: pyarrow.Table) -> pyarrow.Table:
    """Write a shard and return it. Raises `OSError` with its name."""
    columns: dict[str, Any] = {
        "source": pyarrow.array([row.source for row in block], pyarrow.string()),
        "row": pyarrow.array([row.number for row in block], pyarrow.int64()),
        "id": pyarrow.array([_id(row.story) for row in block], pyarrow.string()),
    }
    shard = pyarrow.table(columns | dict(zip(scores.column_names, scores.columns, strict=True)))
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(shard, buffer, compression="zstd")
    with atomic_write(path) as file:
        file.write(buffer.getvalue())
    return shard


def _id(story: Any) -> str | None:
    """The id of a story as text, if it has a valid one."""
    value = story.get("id") if isinstance(story, Mapping) else getattr(story, "id", None)
    text = str(value)
    is_valid = isinstance(value, (str, int)) and not isinstance(value, bool)
    # Parquet has no lone surrogates.
    return text if is_valid and text.encode("utf-8", "ignore").decode() == text else None

"""A run over a corpus: sources of rows, scored block by block, each block a shard on disk before it
is recorded."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from narrative_twins.corpora.manifest import (
    Manifest,
    Part,
    Segment,
    Shard,
    check_names,
    digest_of,
    unscored,
)
from narrative_twins.corpora.scorer import StoryScorer
from narrative_twins.salience.engine import in_processes

ROWS = 1000
"""Rows of a shard: few enough to be held at once and to lose little, and many enough for a forward
pass."""


class Row(NamedTuple):
    """A row of a source: the name of the source, the number of the row in it, and its story."""

    source: str
    number: int
    story: Any


@dataclass(frozen=True)
class CorpusRun:
    """What a folder of shards holds, of one job.

    Attributes:
        rows, errors, truncated: how many rows there are; of these, those with an error, and those
            truncated.
        shards: how many files.
        added: the rows that were scored by this call.
    """

    rows: int = 0
    errors: int = 0
    truncated: int = 0
    shards: int = 0
    added: int = 0


def score_corpus(
    sources: Iterable[tuple[str, Iterable[Any]]],
    folder: str | Path,
    scorer: StoryScorer,
    *,
    rows: int = ROWS,
    job: tuple[int, int] = (1, 1),
    processes: int = 1,
    settings: Mapping[str, Any] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> CorpusRun:
    """Score a corpus into shards of Parquet, or resume that.

    A shard has a row for each story: its `source` and `row` (from 0) there, its `id`, and the
    columns of `COLUMNS`. It is written under another name, synced and renamed before the manifest
    names it, so whenever the process ends, what is missing is scored by the next call, and no row
    is duplicated.
    Rows that are scored are read again, and must be the same; more rows at the end of a source, and
    more sources, may have come.

    Args:
        sources: different names of sources with their rows, each a story in any form that
            `Story.parse` accepts, or a `StoryError`. The rows are read lazily, one source after the
            other.
        folder: of the shards; it is made if it does not exist.
        scorer: scores the stories, a shard at a time, so that scores don't depend on where a run
            was interrupted.
        rows: of a shard; twice `processes` shards are held at once.
        job: number and count of one of several jobs, perhaps on several machines, that write to one
            folder: each scores a part of every source, in blocks of `rows`.
        processes: how many processes score, each a shard at a time; see `score_stories`.
        settings: further settings of the caller that the rows depend on, as JSON data by name.
        on_progress: is called with the number of rows of each shard that is written.

    Returns:
        What the folder has of this job.

    Raises:
        ResumeError: the folder has rows of other settings, or a source has another name or other
            rows than those that were scored.
        OSError: the folder can't be written; the shards in it stay valid.
        ValueError: an argument is invalid.
    """
    if rows < 1 or not 1 <= job[0] <= job[1]:
        raise ValueError(
            f"rows={rows}, job={job}: a shard has at least 1 row; jobs are counted from 1"
        )
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    manifest = Manifest(
        folder, {**scorer.settings, **(settings or {}), "rows of a shard": rows}, Part(*job)
    )
    if processes > 1:
        scorer.unload()
    sources = list(sources)
    check_names([name for name, _ in sources], manifest.shards)
    known = len(manifest.shards)
    waiting: deque[list[Row]] = deque()  # the blocks whose scores are awaited, in order

    def stories() -> Iterator[list[Any]]:
        for block in _blocks(sources, manifest, rows):
            waiting.append(block)
            yield [row.story for row in block]

    with manifest:
        # A shard that was written, in whole or in part, but not recorded.
        for leftover in (folder / manifest.next_name, _part(folder / manifest.next_name)):
            leftover.unlink(missing_ok=True)
        tables = (
            in_processes(scorer.start, stories(), processes)
            if processes > 1
            else (scorer.table(block) for block in stories())
        )
        with closing(tables):
            for table in tables:
                block = waiting.popleft()
                manifest.add(_write(folder, manifest.next_name, block, table))
                if on_progress is not None:
                    on_progress(len(block))
    shards = manifest.shards
    return CorpusRun(
        rows=sum(shard.rows for shard in shards),
        errors=sum(shard.errors for shard in shards),
        truncated=sum(shard.truncated for shard in shards),
        shards=len(shards),
        added=sum(shard.rows for shard in shards[known:]),
    )


def _blocks(
    sources: Iterable[tuple[str, Iterable[Any]]], manifest: Manifest, size: int
) -> Iterator[list[Row]]:
    """The rows that are not scored yet, in blocks for a shard each."""
    segments: dict[str, list[Segment]] = {}
    for segment in (segment for shard in manifest.shards for segment in shard.segments):
        segments.setdefault(segment.source, []).append(segment)
    part = manifest.job
    rows = (
        Row(source, number, story)
        for source, stories in sources
        for number, story in unscored(source, stories, segments.get(source, ()), part, size)
    )
    yield from iter(lambda: list(islice(rows, size)), [])


def _segments(block: Iterable[Row]) -> Iterator[Segment]:
    """The rows of a block as ranges of consecutive rows."""
    # Within a range, the place in the block grows with the number of the row.
    for (source, _), group in groupby(
        enumerate(block), lambda item: (item[1].source, item[1].number - item[0])
    ):
        rows = [row for _, row in group]
        content = digest_of(row.story for row in rows)
        yield Segment(source, rows[0].number, rows[-1].number + 1, content)


def _write(folder: Path, name: str, block: list[Row], scores: pyarrow.Table) -> Shard:
    """Write a shard; it has its name when it is complete and on disk. Raises `OSError` with its
    name."""
    columns: dict[str, Any] = {
        "source": pyarrow.array([row.source for row in block], pyarrow.string()),
        "row": pyarrow.array([row.number for row in block], pyarrow.int64()),
        "id": pyarrow.array([_id(row.story) for row in block], pyarrow.string()),
    }
    columns |= dict(zip(scores.column_names, scores.columns, strict=True))
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer, compression="zstd")
    size = buffer.getbuffer().nbytes
    try:
        _sync(folder / name, buffer.getbuffer())
    except OSError as error:
        raise OSError(f"{folder / name} can't be written: {error.strerror}") from error
    errors = len(block) - scores["error"].null_count
    truncated = pyarrow.compute.sum(scores["truncated"]).as_py() or 0
    return Shard(name, size, len(block), errors, truncated, tuple(_segments(block)))


def _sync(path: Path, data: memoryview) -> None:
    """Write a file under another name, then give it its own; on disk when this returns."""
    part = _part(path)
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _part(path: Path) -> Path:
    # Readers of a folder of Parquet leave out such names.
    return path.with_name(f"_{path.name}.part")


def _id(story: Any) -> str | None:
    """The id of a story as text, if it has a valid one."""
    value = story.get("id") if isinstance(story, Mapping) else getattr(story, "id", None)
    text = str(value)
    is_valid = isinstance(value, (str, int)) and not isinstance(value, bool)
    # Parquet has no lone surrogates.
    return text if is_valid and text.encode("utf-8", "ignore").decode() == text else None

"""A run over a corpus: sources of rows, scored block by block. Each block is a shard on disk before
the manifest records what it holds, by which an interrupted run is resumed."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from narrative_twins.corpora.scorer import StoryScorer
from narrative_twins.files import ResumableFile, ResumeError, difference, read_settings
from narrative_twins.salience.engine import in_processes
from narrative_twins.stories.story import StoryError

ROWS = 1000
"""Rows of a shard: few enough to be held at once and to lose little, and many enough for a forward
pass."""
MANIFEST = "_manifest"
"""The beginning of the manifests' names. Readers of Parquet leave out such names, and
`datasets` those without the suffix of a format."""

Job: TypeAlias = tuple[int, int]
"""The number of a job, from 1, and how many there are."""


class Row(NamedTuple):
    """A row of a source: the name of the source, the number of the row in it, and its story."""

    source: str
    number: int
    story: Any


class Segment(NamedTuple):
    """Consecutive rows of a source, the half-open range from `start` to `stop`, and the digest of
    their content."""

    source: str
    start: int
    stop: int
    digest: str


class Shard(NamedTuple):
    """A shard: its file and the size of that, its rows, those with an error and those truncated,
    and where they are from."""

    name: str
    size: int
    rows: int
    errors: int
    truncated: int
    segments: Sequence[Segment]


@dataclass(frozen=True)
class CorpusRun:
    """What a folder of shards holds, of one job.

    Attributes:
        rows, errors, truncated: how many rows there are; of these, those with an error, and those
            truncated.
        shards: how many files.
        added: the rows that were scored by this call.
    """

    rows: int
    errors: int
    truncated: int
    shards: int
    added: int


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
    columns of `COLUMNS`. Whenever the process ends, what is missing is scored by the next call, and
    no row is duplicated. Rows that are scored are read again, and must be the same; more rows at
    the end of a source, and more sources, may have come.

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
        raise ValueError(f"rows={rows}, job={job}: both are counted from 1")
    folder, sources = Path(folder), list(sources)
    folder.mkdir(exist_ok=True)
    all_settings = {**scorer.settings, **(settings or {}), "rows of a shard": rows, "jobs": job[1]}
    manifest = Manifest(folder, all_settings, job)
    _check_names([name for name, _ in sources], manifest.segments)
    if processes > 1:
        scorer.unload()
    known = len(manifest.shards)
    unscored = chain.from_iterable(
        _unscored(source, stories, manifest.segments.get(source, ()), job, rows)
        for source, stories in sources
    )
    waiting: deque[list[Row]] = deque()  # the blocks whose scores are awaited, in order

    def blocks() -> Iterator[list[Any]]:
        while block := list(islice(unscored, rows)):
            waiting.append(block)
            yield [row.story for row in block]

    with manifest:
        # A shard that was written, in whole or in part, but not recorded.
        for leftover in (folder / manifest.next_name, _part(folder / manifest.next_name)):
            leftover.unlink(missing_ok=True)
        tables = (
            in_processes(scorer.start, blocks(), processes)
            if processes > 1
            else (scorer.table(block) for block in blocks())
        )
        with closing(tables):
            for table in tables:
                block = waiting.popleft()
                manifest.add(_written(folder / manifest.next_name, block, table))
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


class Manifest(ResumableFile):
    """The manifest of a job: a file of lines, one for each shard that is complete, with its
    settings next to it. `shards` has those that are complete, `segments` their rows by source.

    Raises:
        ResumeError: the folder has results of other settings, or shards of the manifest are missing
            in it.
        FileExistsError: the folder has files that this run would write, but no manifest.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], job: Job) -> None:
        self.suffix = f"-{job[0]}-of-{job[1]}" if job[1] > 1 else ""
        path = folder / f"{MANIFEST}{self.suffix}"
        super().__init__(str(path), settings, resume=True, sync=True)
        for other in sorted(folder.glob(f"{MANIFEST}*.run")):  # also of other jobs
            if found := difference(read_settings(str(other)) or self.settings, self.settings):
                raise ResumeError(f"{folder} was started with {found}; choose another folder")
        existing = sorted(file.name for file in folder.glob(f"scores{self.suffix}-*"))
        if existing and not os.path.exists(self.part) and not path.exists():
            raise FileExistsError(f"{folder} has {existing[0]}, but no {path.name}")
        self.shards: list[Shard] = []
        for number, row in enumerate(self.rows(), start=1):
            try:
                segments = [Segment(**segment) for segment in row.pop("segments")]
                self.shards.append(Shard(**row, segments=segments))
            except (KeyError, TypeError):
                raise self.not_resumable(number, "is not the record of a shard") from None
            file = folder / self.shards[-1].name
            if not file.is_file() or file.stat().st_size != self.shards[-1].size:
                raise ResumeError(f"{file} is missing or has changed; restore it")
        self.segments: dict[str, list[Segment]] = {}
        for segment in (segment for shard in self.shards for segment in shard.segments):
            self.segments.setdefault(segment.source, []).append(segment)

    @property
    def next_name(self) -> str:
        """The name of the next shard."""
        return f"scores{self.suffix}-{len(self.shards):05}.parquet"

    def add(self, shard: Shard) -> None:
        """Record a shard whose file is complete. Raises `OSError` if that fails."""
        segments = [segment._asdict() for segment in shard.segments]
        self.write_row({**shard._asdict(), "segments": segments})
        self.shards.append(shard)


def _check_names(names: Sequence[str], known: Iterable[str]) -> None:
    """Refuse sources that seem to have been scored under other names, whose rows would be
    duplicated, with a `ResumeError`; and duplicate names, with a `ValueError`."""
    known = set(known)
    earlier = {os.path.basename(name): name for name in known.difference(names)}
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is named twice; name it once")
        if name not in known and os.path.basename(name) in earlier:
            raise ResumeError(
                f"{name} seems to be {earlier[os.path.basename(name)]}, which was scored; name it"
                " as before (run the command in the same folder), or choose another folder for the"
                " shards"
            )


def owns(job: Job, source: str, block: int) -> bool:
    """Whether a block of the rows of a source belongs to a job. That depends on nothing else, so
    that sources can be added."""
    start = int.from_bytes(hashlib.sha256(source.encode("utf-8", "replace")).digest()[:4])
    return (start + block) % job[1] == job[0] - 1


def _unscored(
    source: str, rows: Iterable[Any], segments: Iterable[Segment], job: Job, block: int
) -> Iterator[Row]:
    """The rows of a source that belong to a job and are not scored. Rows that are scored must be
    those of `segments`; otherwise `ResumeError`. Of every `block` rows, all belong to the same
    job."""
    waiting = sorted(segments, key=lambda segment: segment.start, reverse=True)
    known: list[Any] = []  # the rows of the next segment
    for number, row in enumerate(rows):
        if not owns(job, source, number // block):
            continue
        if not waiting or number < waiting[-1].start:
            yield Row(source, number, row)
            continue
        known.append(row)
        if number == waiting[-1].stop - 1:
            if _digest(known) != waiting[-1].digest:
                break
            waiting.pop()
            known = []
    # The source has other rows, or fewer.
    if waiting:
        start, stop = waiting[-1].start, waiting[-1].stop
        raise ResumeError(
            f"rows {start:,} to {stop - 1:,} of {source} are not those that were scored; restore it"
            " (rows may be added at its end), or choose another folder"
        )


def _digest(rows: Iterable[Any]) -> str:
    """A digest of the content of rows."""
    total = hashlib.sha256()
    for row in rows:
        # Not the index of an error, which depends on the shard.
        content = row.problem if isinstance(row, StoryError) else row
        total.update(json.dumps(content, default=str).encode("ascii") + b"\n")
    return total.hexdigest()[:32]


def _segments(block: Iterable[Row]) -> Iterator[Segment]:
    """The rows of a block as ranges of consecutive rows."""
    # Within a range, the place in the block grows with the number of the row.
    for (source, _), group in groupby(
        enumerate(block), lambda item: (item[1].source, item[1].number - item[0])
    ):
        rows = [row for _, row in group]
        content = _digest(row.story for row in rows)
        yield Segment(source, rows[0].number, rows[-1].number + 1, content)


def _written(path: Path, block: list[Row], scores: pyarrow.Table) -> Shard:
    """Write a shard under another name, then give it its own; on disk when this returns. Raises
    `OSError` with its name."""
    columns: dict[str, Any] = {
        "source": pyarrow.array([row.source for row in block], pyarrow.string()),
        "row": pyarrow.array([row.number for row in block], pyarrow.int64()),
        "id": pyarrow.array([_id(row.story) for row in block], pyarrow.string()),
    }
    columns |= dict(zip(scores.column_names, scores.columns, strict=True))
    buffer, part = io.BytesIO(), _part(path)
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer, compression="zstd")
    try:
        # A new file: a link in its place would be followed.
        part.unlink(missing_ok=True)
        with open(part, "xb") as file:
            file.write(buffer.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(f"{path} can't be written: {error.strerror}") from error
    size, errors = buffer.getbuffer().nbytes, len(block) - scores["error"].null_count
    truncated = pyarrow.compute.sum(scores["truncated"]).as_py() or 0
    return Shard(path.name, size, len(block), errors, truncated, tuple(_segments(block)))


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

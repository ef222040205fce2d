"""The manifest of a run: what each shard holds, by which an interrupted run is resumed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from narrative_twins.files import ResumableFile, ResumeError, difference, read_settings, run_path
from narrative_twins.stories.story import StoryError

MANIFEST = "_manifest"
"""The beginning of the manifests' names. Readers of Parquet leave out names that begin so, and
`datasets` those without the suffix of a format."""

_SETTINGS = re.compile(rf"{MANIFEST}(-\d+-of-\d+)?(\.part)?\.run")


class Part(NamedTuple):
    """The part of one job of several: `number`, from 1, of `jobs`."""

    number: int = 1
    jobs: int = 1

    @property
    def suffix(self) -> str:
        """What the names of the job's files have."""
        return f"-{self.number}-of-{self.jobs}" if self.jobs > 1 else ""

    def owns(self, source: str, block: int) -> bool:
        """Whether a block of the rows of a source belongs to this job. That depends on nothing
        else, so that sources can be added."""
        start = int.from_bytes(hashlib.sha256(source.encode("utf-8", "replace")).digest()[:4])
        return (start + block) % self.jobs == self.number - 1


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
    segments: tuple[Segment, ...]

    def to_row(self) -> dict[str, Any]:
        """A row of the manifest."""
        return self._asdict() | {"segments": [segment._asdict() for segment in self.segments]}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Shard:
        """The inverse of `to_row`. Raises `KeyError` or `TypeError` for another row."""
        segments = tuple(Segment(**segment) for segment in row["segments"])
        return cls(**{**row, "segments": segments})


class Manifest:
    """The manifest of a job: a file of lines, one for each shard that is complete, with its
    settings next to it.

    Args:
        folder: of the shards.
        settings: all that the rows depend on, see `ResumableFile`.
        part: of the job.

    Attributes:
        shards: those that are complete.

    Raises:
        ResumeError: the folder has results of other settings, or shards of the manifest are missing
            in it.
        FileExistsError: the folder has files that this run would write, but no manifest.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], part: Part) -> None:
        self.folder, self.part = folder, part
        path = folder / f"{MANIFEST}{part.suffix}"
        existing = [name for name in os.listdir(folder) if name.startswith(f"scores{part.suffix}-")]
        self._file = ResumableFile(
            str(path), {**settings, "jobs": part.jobs}, resume=True, sync=True
        )
        self._check_others()
        if existing and not os.path.exists(self._file.part) and not path.exists():
            raise FileExistsError(
                f"{folder} has {min(existing)}, but no {path.name}; choose another folder"
            )
        self.shards: list[Shard] = []
        for number, row in enumerate(self._file.rows(), start=1):
            try:
                shard = Shard.from_row(row)
            except (KeyError, TypeError):
                raise self._file.not_resumable(number, "is not the record of a shard") from None
            self.shards.append(shard)
            file = folder / shard.name
            if not file.is_file() or file.stat().st_size != shard.size:
                raise ResumeError(
                    f"{file} is missing or has changed; restore it, or choose another folder"
                )

    def __enter__(self) -> Manifest:
        self._file.__enter__()
        try:
            # After this manifest is there, so that of two jobs that start together at least one
            # sees the other.
            self._check_others()
        except BaseException as error:
            self._file.__exit__(type(error), error, None)
            if not self.shards:
                for path in (self._file.part, run_path(self._file.part)):
                    Path(path).unlink(missing_ok=True)
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.__exit__(*error)

    @property
    def next_name(self) -> str:
        """The name of the next shard."""
        return f"scores{self.part.suffix}-{len(self.shards):05}.parquet"

    def add(self, shard: Shard) -> None:
        """Record a shard whose file is complete. Raises `OSError` if that fails."""
        self._file.write_row(shard.to_row())
        self.shards.append(shard)

    def _check_others(self) -> None:
        """Refuse other settings than those of the other jobs."""
        own = {os.path.basename(run_path(path)) for path in (self._file.path, self._file.part)}
        for name in sorted(os.listdir(self.folder)):
            if not _SETTINGS.fullmatch(name) or name in own:
                continue
            other = read_settings(str(self.folder / name))
            if other is not None and (found := difference(other, self._file.settings)):
                raise ResumeError(
                    f"{self.folder} was started with {found}; use the same options, or choose"
                    " another folder"
                )


class Digest:
    """The digest of consecutive rows."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, row: Any) -> None:
        """Add the content of a row."""
        # Not the index of an error, which depends on the shard.
        content = row.problem if isinstance(row, StoryError) else row
        self._digest.update(json.dumps(content, default=str).encode("ascii") + b"\n")

    def get(self) -> str:
        """The digest of the rows so far."""
        return self._digest.hexdigest()[:32]


def check_names(names: Sequence[str], shards: Iterable[Shard]) -> None:
    """Refuse sources that seem to have been scored under other names, whose rows would be
    duplicated, with a `ResumeError`; and duplicate names, with a `ValueError`."""
    found, known = set(names), {segment.source for shard in shards for segment in shard.segments}
    if len(found) < len(names):
        raise ValueError(
            f"{next(name for name in names if names.count(name) > 1)} is there twice; name it once"
        )
    missing = {os.path.basename(name): name for name in known - found}
    for name in names:
        if name not in known and (earlier := missing.get(os.path.basename(name))):
            raise ResumeError(
                f"{name} seems to be {earlier}, which was scored; name it as before (run the"
                " command in the same folder), or choose another folder for the shards"
            )


def unscored(
    source: str, rows: Iterable[Any], segments: Iterable[Segment], part: Part, block: int
) -> Iterator[tuple[int, Any]]:
    """The rows of a source that belong to a job and are not scored, with their numbers. Rows that
    are scored must be those of `segments`; otherwise `ResumeError`. Of every `block` rows, all
    belong to the same job.
    """
    waiting = sorted(segments, key=lambda segment: segment.start, reverse=True)
    digest = Digest()
    for number, row in enumerate(rows):
        if not part.owns(source, number // block):
            continue
        if not waiting or number < waiting[-1].start:
            yield number, row
            continue
        digest.add(row)
        if number == waiting[-1].stop - 1:
            if digest.get() != waiting[-1].digest:
                break
            waiting.pop()
            digest = Digest()
    # The source has other rows, or fewer.
    if waiting:
        start, stop = waiting[-1].start, waiting[-1].stop
        raise ResumeError(
            f"rows {start:,} to {stop - 1:,} of {source} are not those that were scored; restore it"
            " (rows may be added at its end), or choose another folder"
        )

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
"""The beginning of the manifests' names. Readers of Parquet leave out such names, and
`datasets` those without the suffix of a format."""

_SETTINGS = re.compile(rf"{MANIFEST}(-\d+-of-\d+)?(\.part)?\.run")


class Part(NamedTuple):
    """The part of one job of several: `number`, from 1, of `jobs`."""

    number: int = 1
    jobs: int = 1

    @property
    def suffix(self) -> str:
        """The end of the names of the job's files, without suffix."""
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
    segments: Sequence[Segment]


class Manifest(ResumableFile):
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
        self.folder, self.job = folder, part
        path = folder / f"{MANIFEST}{part.suffix}"
        settings = {**settings, "jobs": part.jobs}
        super().__init__(str(path), settings, resume=True, sync=True)
        self._check_others()
        existing = [name for name in os.listdir(folder) if name.startswith(f"scores{part.suffix}-")]
        if existing and not os.path.exists(self.part) and not path.exists():
            raise FileExistsError(
                f"{folder} has {min(existing)}, but no {path.name}; choose another folder"
            )
        self.shards: list[Shard] = []
        for number, row in enumerate(self.rows(), start=1):
            try:
                segments = [Segment(**segment) for segment in row.pop("segments")]
                self.shards.append(Shard(**row, segments=segments))
            except (KeyError, TypeError):
                raise self.not_resumable(number, "is not the record of a shard") from None
            file = folder / self.shards[-1].name
            if not file.is_file() or file.stat().st_size != self.shards[-1].size:
                raise ResumeError(
                    f"{file} is missing or has changed; restore it, or choose another folder"
                )

    @property
    def next_name(self) -> str:
        """The name of the next shard."""
        return f"scores{self.job.suffix}-{len(self.shards):05}.parquet"

    def add(self, shard: Shard) -> None:
        """Record a shard whose file is complete. Raises `OSError` if that fails."""
        segments = [segment._asdict() for segment in shard.segments]
        self.write_row({**shard._asdict(), "segments": segments})
        self.shards.append(shard)

    def _check_others(self) -> None:
        """Refuse other settings than those of the other jobs."""
        own = {os.path.basename(run_path(path)) for path in (self.path, self.part)}
        for name in sorted(os.listdir(self.folder)):
            other = read_settings(str(self.folder / name)) if _SETTINGS.fullmatch(name) else None
            if name in own or other is None:
                continue
            if found := difference(other, self.settings):
                raise ResumeError(
                    f"{self.folder} was started with {found}; use the same options, or choose"
                    " another folder"
                )


def digest_of(rows: Iterable[Any]) -> str:
    """A digest of the content of rows."""
    total = hashlib.sha256()
    for row in rows:
        # Not the index of an error, which depends on the shard.
        content = row.problem if isinstance(row, StoryError) else row
        total.update(json.dumps(content, default=str).encode("ascii") + b"\n")
    return total.hexdigest()[:32]


def check_names(names: Sequence[str], shards: Iterable[Shard]) -> None:
    """Refuse sources that seem to have been scored under other names, whose rows would be
    duplicated, with a `ResumeError`; and duplicate names, with a `ValueError`."""
    known = {segment.source for shard in shards for segment in shard.segments}
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is named twice; name it once")
        earlier = [
            other
            for other in known - set(names)
            if os.path.basename(other) == os.path.basename(name)
        ]
        if name not in known and earlier:
            raise ResumeError(
                f"{name} seems to be {earlier[0]}, which was scored; name it as before (run the"
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
    known: list[Any] = []  # the rows of the next segment
    for number, row in enumerate(rows):
        if not part.owns(source, number // block):
            continue
        if not waiting or number < waiting[-1].start:
            yield number, row
            continue
        known.append(row)
        if number == waiting[-1].stop - 1:
            if digest_of(known) != waiting[-1].digest:
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

"""A run over a corpus: its rows in blocks, each block one shard of Parquet. A shard that exists is
complete, so an interrupted run goes on with the shards that are missing."""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from narrative_twins.corpora.scorer import StoryScorer
from narrative_twins.salience.engine import CHECKED
from narrative_twins.salience.multiprocess import in_processes
from narrative_twins.stories.rows import Document, RowColumns, shown_json
from narrative_twins.stories.story import StoryError, name_column, plain_id
from narrative_twins.writing import ResumeError, atomic_write, difference

ROWS = 1000
"""Rows of a shard: few enough to score again after an interruption, many for a forward pass."""
SETTINGS = "_run.json"
"""The name of the file of settings. Readers of Parquet ignore names that begin with `_`."""

_TEXT, _NUMBER = pyarrow.string(), pyarrow.int64()
PLACE = pyarrow.schema([("file", _TEXT), ("row", _NUMBER), ("id", _TEXT)])
"""The columns that say which story of the input a row is; columns that are kept come after them."""

Job: TypeAlias = tuple[int, int]
"""The number of a job, from 1, and how many there are."""


@dataclass
class CorpusRun:
    """Counts over the shards of one job in a folder.

    Attributes:
        rows: how many rows the shards have.
        errors, truncated: how many of these rows have an error, or a truncated story.
        single: how many stories are a single sentence.
        shards: how many shards there are.
        added: how many rows this call of `score_corpus` has scored.
        beginning: the sentences of the first stories of these, at most `CHECKED`.
    """

    rows: int = 0
    errors: int = 0
    truncated: int = 0
    single: int = 0
    shards: int = 0
    added: int = 0
    beginning: list[list[str]] = field(default_factory=list)


def score_corpus(
    sources: Iterable[tuple[str, Iterable[Any]]],
    folder: str | Path,
    scorer: StoryScorer,
    *,
    rows: int = ROWS,
    job: Job = (1, 1),
    processes: int = 1,
    settings: Mapping[str, Any] | None = None,
    columns: RowColumns | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> CorpusRun:
    """Score a corpus into a folder of shards of Parquet, or resume such a run. Returns counts.

    A shard has a row for each story: its `file`, its `row` in the file (from 0), its `id`, and the
    columns of `COLUMNS`. If the process is interrupted, the next call scores the shards that
    are missing. The input must then be the same, except for more rows and sources at its end.

    Args:
        sources: names of files, or of other sources, with their rows, each a story in any form that
            `Story.parse` accepts, a `StoryError`, or a `Document`. The rows are read lazily, one
            source after the other.
        folder: the folder of the shards; it is made if it does not exist.
        scorer: scores the stories, a whole shard at a time.
        rows: how many rows a shard has; twice `processes` shards are held at once.
        job: number and count of one of several jobs, perhaps on several machines, that write to one
            folder: job I of N scores every N-th shard.
        processes: how many processes score at most, each a shard at a time; see `ScoringOptions`.
        settings: further settings of the caller that the rows depend on, as JSON data by name.
        columns: how the rows of documents were read. The columns that are kept are texts in the
            shards, other values than texts as JSON; of grouped rows they are lists, as is `rows`.
        on_progress: called whenever a shard is complete, with the number of rows in the shard.

    Raises:
        ResumeError: the folder has scores by other settings, or of other rows.
        OSError: the folder can't be written; the shards in it stay valid.
        ValueError: an argument is invalid.
    """
    if rows < 1 or not 1 <= job[0] <= job[1]:
        raise ValueError(f"rows={rows}, job={job}: both are counted from 1")
    folder, run, place = Path(folder), CorpusRun(), _place(columns)
    folder.mkdir(exist_ok=True)
    _check_settings(folder, {**scorer.settings, **(settings or {}), "rows of a shard": rows})
    unscored: deque[tuple[Path, pyarrow.Table]] = deque()  # whose scores are awaited, in order

    def complete(shard: pyarrow.Table, added: int) -> None:
        """Count a complete shard. `added` is how many of its rows were scored by this call."""
        if added and not run.added:
            run.beginning = list(filter(None, shard["sentences"][:CHECKED].to_pylist()))
        run.shards += 1
        run.rows += len(shard)
        run.errors += len(shard) - shard["error"].null_count
        run.truncated += pyarrow.compute.sum(shard["truncated"]).as_py() or 0
        run.single += shard["windows"].to_pylist().count([[0, 1]])
        run.added += added
        if on_progress is not None:
            on_progress(len(shard))

    def tasks() -> Iterator[Sequence[Any]]:
        """Yield the stories of each missing shard of this job; count the shards that exist."""
        # Every job reads all rows, so that all number the shards alike.
        for number, (places, stories) in enumerate(_blocks(sources, rows, place)):
            if number % job[1] == job[0] - 1:
                path = folder / f"scores-{number:05}.parquet"
                if (shard := _complete_shard(path, places)) is not None:
                    complete(shard, 0)
                else:
                    unscored.append((path, places))
                    yield stories

    todo: Iterator[Sequence[Any]] = tasks()
    todo = chain(list(islice(todo, processes)), todo)  # no more processes than shards
    tables: Generator[pyarrow.Table, None, None] = (scorer.table(task) for task in todo)
    if len(unscored) > 1:
        scorer.unload()  # each process loads its own
        tables = in_processes(scorer.start, todo, len(unscored))
    with closing(tables):
        for scores in tables:
            path, shard = unscored.popleft()
            for name in scores.column_names:
                shard = shard.append_column(name, scores[name])
            data = io.BytesIO()
            pyarrow.parquet.write_table(shard, data, compression="zstd")
            with atomic_write(path) as file:
                file.write(data.getvalue())
            complete(shard, len(shard))
    return run


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write settings into a new folder; raise a ResumeError if the folder has other settings."""
    path, now = folder / SETTINGS, json.loads(json.dumps(settings))
    if path.exists():
        if changed := difference(json.loads(path.read_text(encoding="utf-8")), now):
            raise ResumeError(f"{folder} was started with {changed}; choose another folder")
        return
    with atomic_write(path) as file:
        file.write(json.dumps(now, indent=1) + "\n")


def _place(columns: RowColumns | None) -> pyarrow.Schema:
    """Return the schema of the columns that say which story a row is, with those that are kept."""
    place = PLACE
    is_grouped = columns is not None and columns.group is not None
    if is_grouped:
        place = place.append(pyarrow.field("rows", pyarrow.list_(_NUMBER)))
    for name in columns.keep if columns else ():
        place = place.append(pyarrow.field(name, pyarrow.list_(_TEXT) if is_grouped else _TEXT))
    return place


def _blocks(
    sources: Iterable[tuple[str, Iterable[Any]]], rows: int, place: pyarrow.Schema
) -> Iterator[tuple[pyarrow.Table, Sequence[Any]]]:
    """Divide the stories of all sources into blocks of `rows` stories, the last perhaps shorter.
    Yields for each block the columns `place` of its stories, and the stories."""
    every = (
        _place_and_story(
            source, story if isinstance(story, Document) else Document("", story, row=number)
        )
        for source, stories in sources
        for number, story in enumerate(stories)
    )
    for block in iter(lambda: list(islice(every, rows)), []):
        places, stories = zip(*block, strict=True)
        yield pyarrow.Table.from_pylist(list(places), place), stories


def _place_and_story(source: str, document: Document) -> tuple[dict[str, Any], Any]:
    """Return the columns of a shard that identify a story (its file, row and id, and the columns
    that are kept), and the story, or the error if it could not be read."""
    story = document.content if document.problem is None else StoryError(document.problem)
    kept = {
        name: list(map(_cell, value)) if document.rows else _cell(value)
        for name, value in document.kept.items()
    }
    place = {"file": source, "row": document.row, "id": _id(story), "rows": document.rows or None}
    return {**place, **kept}, story


def _cell(value: Any) -> str | None:
    """Return a value that is kept as text without lone surrogates, which Parquet has not."""
    return None if value is None else shown_json(value).encode("utf-8", "replace").decode()


def _complete_shard(path: Path, places: pyarrow.Table) -> pyarrow.Table | None:
    """Read the columns of a shard that are compared and counted. Returns None if the file is
    missing or damaged, or shorter than its block. Raises ResumeError if the file has other rows
    than `places`, the columns of its block."""
    try:
        columns = [*places.column_names, "error", "truncated", "windows"]
        shard = pyarrow.parquet.read_table(path, columns=columns, partitioning=None)
    except (pyarrow.ArrowException, OSError):
        return None
    if not shard.select(places.column_names).equals(places.slice(0, len(shard))):
        raise ResumeError(
            f"{path} has other rows than the input; name the files as before, or choose another"
            " folder"
        )
    return shard if len(shard) == len(places) else None


def _id(story: Any) -> str | None:
    """Return the id of a story as text; None if the story has no valid id."""
    column = name_column(story) if isinstance(story, Mapping) else None
    value = getattr(story, "id", None) if column is None else story[column]
    value = plain_id(value)
    text = str(value)
    is_valid = isinstance(value, (str, int)) and not isinstance(value, bool)
    # Parquet has no lone surrogates.
    return text if is_valid and text.encode("utf-8", "ignore").decode() == text else None

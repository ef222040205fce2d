"""What every reader of files must do with any bytes: report what is wrong, and raise nothing else.
One function for each kind of file, for property tests.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GOOD = b'{"text": "Nadia ran. It rained."}\n'
GOOD_ROW = b"Nadia ran. It rained.\n"


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Checks how many bytes of memory a block takes at most."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


@contextmanager
def _file(name: str, data: bytes) -> Iterator[Path]:
    """A file with these bytes, in memory where the system has a folder for that."""
    fast = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        (file := Path(folder) / name).write_bytes(data)
        yield file


def stories(suffix: str) -> Callable[[bytes], None]:
    """Story files: each story is read or has a problem in one line."""

    def read(data: bytes) -> None:
        found = _parsed(data, suffix)
        if suffix == "jsonl" and b"\0" not in data[:1024]:
            # Whatever comes before, a story on a line of its own is read.
            found = _parsed(GOOD + data + b"\n" + GOOD, suffix)
            assert found[0] == found[-1] == ("Nadia ran.", "It rained."), found

    return read


def _parsed(data: bytes, suffix: str) -> list[tuple[str, ...]]:
    from narrative_twins.stories.reading import stories_in
    from narrative_twins.stories.story import Story, StoryError

    found: list[tuple[str, ...]] = []
    for document in stories_in(io.BytesIO(data), f"stories.{suffix}"):
        if document.problem is not None:
            assert document.content is None and "\n" not in document.name
            continue
        try:
            found.append(Story.parse(document.content).sentences)
        except StoryError as error:
            assert str(error)
    return found


def rows(suffix: str) -> Callable[[bytes], None]:
    """Data files: rows, or an error that names the file."""

    def read(data: bytes) -> None:
        from narrative_twins.data.records import read_records
        from narrative_twins.data.rows import RowError, check_twins_row

        with _file(f"rows.{suffix}", data) as file:
            try:
                for record in read_records(str(file)):
                    check_twins_row(dict(record.row), record.where)
            except RowError as error:
                assert "rows." in str(error)

    return read


def books(suffix: str) -> Callable[[bytes], None]:
    """Books: sentences that are in the text, or an error on one line."""

    def read(data: bytes) -> None:
        from narrative_twins.books.reading import book_of
        from narrative_twins.books.table import book_table

        try:
            book = book_of(f"book.{suffix}", data)
        except ValueError as error:
            assert str(error) and "\n" not in str(error)
            return
        for sentence in book_table(book).sentences:
            start, end = sentence.span
            assert book.text[start:end].strip()

    return read


def results(data: bytes) -> None:
    """Saved scores."""
    from narrative_twins.show.formats import read_results

    with _file("scores.jsonl", data) as file:
        try:
            list(read_results([file]))
        except ValueError as error:
            assert "scores.jsonl" in str(error)


def checkpoints(data: bytes) -> None:
    """Settings of a checkpoint: every JSON file of it."""
    from narrative_twins.encoder.loading import check_weights, read_checkpoint_settings

    with _file("modules.json", data) as file:
        with suppress(OSError):
            read_checkpoint_settings(file.parent)
        for name in ("config.json", "model.safetensors.index.json"):
            shutil.copy(file, file.parent / name)
        try:
            check_weights(file.parent, {})
        except ValueError as error:
            assert "safetensors" in str(error) or "invalid" in str(error)


READERS: dict[str, Callable[[bytes], None]] = {
    **{kind: stories(kind) for kind in ("txt", "jsonl", "json", "csv")},
    **{
        f"rows-{kind}": rows(kind)
        for kind in ("jsonl", "json", "csv", "jsonl.gz", "csv.gz", "parquet")
    },
    **{f"book-{kind}": books(kind) for kind in ("txt", "md", "html", "epub", "docx")},
    "results": results,
    "checkpoints": checkpoints,
}
"""Readers by the kind of file."""

"""`narrative-twins book` and `extract`: scores a book at several levels; its salient sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from narrative_twins.books.chapters_and_scenes import LEVELS
from narrative_twins.books.reading import read_book
from narrative_twins.books.result import read_book_salience
from narrative_twins.commands.common import (
    EncoderOptions,
    check_output,
    is_complete,
    output_format,
    percentage,
    scoring_options,
    shows_progress,
    tell,
    watch,
    write_resumable,
)
from narrative_twins.commands.outputs import JSON_LINES, ResultOutput, write_pieces
from narrative_twins.commands.signatures import Choices, Count, Names, command, usage_errors
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.options import FAST, ScoringOptions
from narrative_twins.salience.result import PRIMARY_OPERATION
from narrative_twins.writing import STDIN, JsonlLog, check_writable, digest, for_terminal

if TYPE_CHECKING:
    from narrative_twins.books.chapters_and_scenes import BookTable
    from narrative_twins.books.scoring import BookScorer

_LEVELS = Names(lambda: LEVELS)
_OPERATIONS = Choices(lambda: OPERATIONS)
_LARGE = 1_000_000  # bytes of a file that may take seconds to read
_SAVED = (".json", ".jsonl")
_EXTRACTS = {".txt": "text", ".md": "markdown"}


@command()
def book(
    file: str,
    scoring: Annotated[
        dict[str, Any],
        scoring_options("operations", "approximate", "similarity", "splitter", **FAST),
    ],
    encoder: EncoderOptions,
    output: ResultOutput,
    *,
    level: Annotated[Sequence[str], _LEVELS] = LEVELS,
    explain: bool = False,
    resume: bool = False,
    quiet: bool = False,
) -> int:
    """Score the chapters of a book, the scenes of chapters and the sentences of scenes. FILE is
    text, EPUB, Word, HTML, Markdown or PDF.

    Args:
        file (FILE): the book.
        level (A,B): Levels to score (default: chapter,scene,sentence).
        explain: Show what of the file is left out, and score nothing.
        resume: Continue an interrupted run.
        quiet: Show no progress and no estimate.
    """
    if explain:
        contents = read_book(file)
        for block in contents.left_out:
            click.echo(for_terminal(f"{block.reason}: {block.text} ({block.place})"))
        click.echo(for_terminal("\n".join(contents.notes)))
        return 0
    output.check([file], resume, is_book=True)
    if output.is_resumable and is_complete(output.out, resume):
        return 0
    table, scorer = _load(file, level, scoring, encoder, quiet)
    if output.format != JSON_LINES:
        output.write(scorer.score(table))
        return 0
    result = scorer.result(table)

    def rows(log: JsonlLog | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of scores that the log lacks: of each chapter, then of the book."""
        done = log.rows if log else []
        if not done or "scenes" in done[-1]:  # the last row is of the book
            yield from scorer.rows(table, result, done)
            yield result.book_row()

    if not output.is_resumable:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
        write_pieces(output.out, JSON_LINES, lines)
        return 0
    settings = encoder.settings(scorer.encoder, ScoringOptions(**scoring))
    spans = [table.title, *(table.units(name).spans for name in LEVELS)]
    settings["levels"] = list(scorer.operations)
    settings["book"] = digest([*spans, table.chapters.texts, table.sentences.texts])
    write_resumable(output.out, resume, settings, rows)
    return 0


def _load(
    file: str,
    levels: Sequence[str],
    scoring: Mapping[str, Any],
    encoder: EncoderOptions,
    quiet: bool,
) -> tuple[BookTable, BookScorer]:
    """Return the table of the book in a file, and the scorer of `levels` with its encoder. The book
    is read first, so that its errors are reported before the encoder is loaded."""
    from narrative_twins.books.chapters_and_scenes import book_table
    from narrative_twins.books.scoring import BookScorer, level_operations

    with usage_errors():
        level_operations(levels, scoring)
    if shows_progress(quiet) and os.path.isfile(file) and os.path.getsize(file) > _LARGE:
        tell(f"reading {file}")
    table = book_table(file, scoring["splitter"])
    for note in table.left_out:
        if note.startswith("Warning"):
            tell(note)
    return table, BookScorer.of(encoder.load(), levels, progress=watch(quiet), **scoring)


@command()
def extract(
    file: str,
    scoring: Annotated[
        dict[str, Any], scoring_options("approximate", "similarity", "splitter", **FAST)
    ],
    encoder: EncoderOptions,
    *,
    share: Annotated[float, percentage] | None = None,
    sentences: Count | None = None,
    words: Count | None = None,
    operation: Annotated[str, _OPERATIONS] | None = None,
    format: Literal["text", "markdown"] | None = None,
    out: str = STDIN,
    quiet: bool = False,
) -> int:
    """The most salient sentences of each part of a book, in story order under the headings of its
    chapters. FILE is a book, or its scores as JSON or JSON Lines from `narrative-twins book`, which
    needs no encoder.

    Args:
        file (FILE): the book, or its scores.
        share (X): Share of the sentences: 10% or 0.1 (default: 10%).
        sentences (N): How many sentences.
        words (N): Maximum number of words.
        operation: Operation that chooses sentences (default: summarization).
        format: Format of the output (default: by the suffix of --out, otherwise text).
        out (FILE): Output file (default: standard output).
        quiet: Show no progress and no estimate.
    """
    check_output([file], out)
    if sum(length is not None for length in (share, sentences, words)) > 1:
        raise click.UsageError("--share, --sentences and --words all set the length; use one")
    form = output_format(out, format, _EXTRACTS)
    check_writable(out)
    if file.lower().endswith(_SAVED):
        result = read_book_salience(file)
    else:
        scoring["operations"] = [operation or PRIMARY_OPERATION]
        table, scorer = _load(file, ["sentence"], scoring, encoder, quiet)
        result = scorer.score(table)
    selected = result.extract(sentences, operation, share=share, words=words)
    text = selected.to_markdown() if form == "markdown" else f"{selected}\n"
    write_pieces(out, "extract", [text])
    return 0

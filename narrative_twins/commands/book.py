"""`narrative-twins book`: scores a book at several levels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import click

from narrative_twins.books.reading import read_book
from narrative_twins.books.table import LEVELS
from narrative_twins.commands.book_scorer import load_book_scorer
from narrative_twins.commands.encoder_options import EncoderOptions
from narrative_twins.commands.messages import shows_progress
from narrative_twins.commands.output_options import JSON_LINES, ResultOutput, write_pieces
from narrative_twins.commands.resuming import is_complete, write_resumable
from narrative_twins.commands.scoring_options import scoring_options
from narrative_twins.commands.signatures import Names, command
from narrative_twins.salience.options import FAST, ScoringOptions
from narrative_twins.text import for_terminal
from narrative_twins.writing import JsonlLog, digest

_LEVELS = Names(lambda: LEVELS)


@command()
def book(
    file: str,
    scoring: Annotated[
        ScoringOptions,
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
    text, EPUB, Word, OpenDocument, TEI, HTML, Markdown or PDF.

    Args:
        file (FILE): the book.
        level (A,B): Levels to score (default: chapter,scene,sentence).
        explain: Show what of the file is left out, and score nothing.
        resume: Continue an interrupted run.
        quiet: Show no progress.
    """
    if explain:
        contents = read_book(file)
        for block in contents.left_out:
            click.echo(for_terminal(f"{block.reason}: {block.text} ({block.place})"))
        click.echo(for_terminal("\n".join(contents.notes)))
        return 0
    output.check_book()
    output.check([file], resume)
    if output.is_resumable and is_complete(output.out, resume):
        return 0
    scoring = replace(scoring, progress=shows_progress(quiet))
    table, scorer = load_book_scorer(file, level, scoring, encoder)
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
    settings = encoder.settings(scorer.encoder, scoring)
    spans = [table.title, *(table.units(name).spans for name in LEVELS)]
    settings["levels"] = list(scorer.operations)
    settings["book"] = digest([*spans, table.chapters.texts, table.sentences.texts])
    write_resumable(output.out, resume, settings, rows)
    return 0

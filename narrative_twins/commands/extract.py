"""`narrative-twins extract`: the salient sentences of a book."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import click

from narrative_twins.books.result import read_book_salience
from narrative_twins.commands.book_scorer import load_book_scorer
from narrative_twins.commands.encoder_options import EncoderOptions
from narrative_twins.commands.files import check_output
from narrative_twins.commands.messages import shows_progress
from narrative_twins.commands.output_options import output_format, percentage, write_pieces
from narrative_twins.commands.scoring_options import scoring_options
from narrative_twins.commands.signatures import Choices, Count, command
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.options import FAST, ScoringOptions
from narrative_twins.salience.ranking import PRIMARY_OPERATION
from narrative_twins.writing import STDIN, check_writable

_OPERATIONS = Choices(lambda: OPERATIONS)


_SAVED = (".json", ".jsonl")


_EXTRACTS = {".txt": "text", ".md": "markdown"}


@command()
def extract(
    file: str,
    scoring: Annotated[
        ScoringOptions, scoring_options("approximate", "similarity", "splitter", **FAST)
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
        quiet: Show no progress.
    """
    check_output([file], out)
    if sum(length is not None for length in (share, sentences, words)) > 1:
        raise click.UsageError("--share, --sentences and --words all set the length; use one")
    form = output_format(out, format, _EXTRACTS)
    check_writable(out)
    if file.lower().endswith(_SAVED):
        result = read_book_salience(file)
    else:
        names, progress = [operation or PRIMARY_OPERATION], shows_progress(quiet)
        scoring = replace(scoring, operations=names, progress=progress)
        table, scorer = load_book_scorer(file, ["sentence"], scoring, encoder)
        result = scorer.score(table)
    selected = result.extract(sentences, operation, share=share, words=words)
    text = selected.to_markdown() if form == "markdown" else f"{selected}\n"
    write_pieces(out, "extract", [text])
    return 0

"""The table of a book and its scorer, for the commands that score books."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from narrative_twins.commands.encoder_options import EncoderOptions
from narrative_twins.commands.messages import tell
from narrative_twins.commands.signatures import usage_errors
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.salience.wording import other_language

if TYPE_CHECKING:
    from narrative_twins.books.scoring import BookScorer
    from narrative_twins.books.table import BookTable


_LARGE = 1_000_000  # bytes of a file that may take seconds to read


def load_book_scorer(
    file: str, levels: Sequence[str], scoring: ScoringOptions, encoder: EncoderOptions
) -> tuple[BookTable, BookScorer]:
    """Return the table of the book in a file, and the scorer of `levels` with its encoder. The book
    is read first, so that its errors are reported before the encoder is loaded."""
    from narrative_twins.books.scoring import BookScorer, level_operations
    from narrative_twins.books.table import book_table

    with usage_errors():
        level_operations(levels, scoring)
    if scoring.progress and os.path.isfile(file) and os.path.getsize(file) > _LARGE:
        tell(f"reading {file}")
    table = book_table(file, scoring.splitter)
    for note in table.left_out:
        if note.startswith("Warning"):
            tell(note)
    scorer = BookScorer.of(encoder.load(), levels, scoring)
    if scorer.encoder.is_english and (note := other_language(table.sentences.texts)):
        tell(f"{file}: the text {note}")
    return table, scorer

"""`narrative-twins show`: shows saved results without an encoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import click

from narrative_twins.books.result import is_book_salience, read_book_salience
from narrative_twins.commands.files import check_input
from narrative_twins.commands.output_options import ResultOutput
from narrative_twins.commands.signatures import command
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import read_results
from narrative_twins.writing import STDIN


@command()
def show(files: Sequence[str], output: ResultOutput, *, operations: str | None = None) -> int:
    """Show saved scores: what score wrote as jsonl or json, and what book wrote as json or jsonl; -
    or no FILE is standard input, as JSON Lines. Nothing is scored, and no encoder is loaded.

    Args:
        files ([FILE]...): the saved scores.
        operations (A,B): Show only these (default: all).
    """
    check_input(files)
    output.check(files)
    if any(map(is_book_salience, files)):
        if len(files) > 1:
            raise click.UsageError("the scores of a book are shown by themselves; name one file")
        if operations is not None:
            raise click.UsageError("--operations does not apply to a book; choose them in book")
        output.check_book()
        output.write(read_book_salience(files[0]))
        return 0
    names = operations.split(",") if operations else None
    results = _with_same_operations(read_results(files or [STDIN]), names)
    first = next(results, None)
    if first is None:
        raise ValueError("there are no scores in the input")
    output.write(chain([first], results))
    return 0


def _with_same_operations(
    results: Iterator[StorySalience], operations: list[str] | None
) -> Iterator[StorySalience]:
    """Yield results with scores by `operations` only; None stands for the operations of the first
    result. Raises a `ValueError` if a result lacks one of these or, for None, has others."""
    names = operations
    for result in results:
        names = names or list(result.scores)
        try:
            scores = {name: result.scores_of(name) for name in names}
        except ValueError as error:
            raise ValueError(f"{result.name}: {error} with --operations") from None
        if operations is None and len(result.scores) > len(names):
            raise ValueError(
                f"{result.name} has scores by {', '.join(result.scores)}, stories before it by"
                f" {', '.join(names)}; choose with --operations"
            )
        yield replace(result, scores=scores)

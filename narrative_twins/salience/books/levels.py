"""The levels of a book that are scored, and the operations of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from narrative_twins.salience.books.units import LEVELS, Level
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.options import BookOptions, checked_options


def check_levels(levels: str | Iterable[str]) -> tuple[Level, ...]:
    """Some levels in their order, from the highest; raises a `ValueError` if there is none or one
    is unknown."""
    names = [levels] if isinstance(levels, str) else list(levels)
    if unknown := [name for name in names if name not in LEVELS]:
        raise ValueError(f"level {unknown[0]!r} is unknown; choose from {', '.join(LEVELS)}")
    if not names:
        raise ValueError(f"no level to score; choose from {', '.join(LEVELS)}")
    return tuple(level for level in LEVELS if level in names)


def level_operations(levels: Sequence[Level], options: BookOptions) -> dict[Level, list[Operation]]:
    """The operations of each level. Raises a `ValueError` if a level would have none."""
    given = options.get("operations")
    if not (given is None or isinstance(given, (str, Operation))):
        options = {**options, "operations": list(given)}
    if "sentence" not in levels:
        options = {**options, "approximate": None}
    sentences = resolve_operations(checked_options(options)["operations"])
    chosen = resolve_operations(options.get("operations"))
    above = [operation for operation in chosen if operation.has_one_pass]
    found: dict[Level, list[Operation]] = {}
    for level in levels:
        if level == "sentence":
            found[level] = sentences
        elif not above:
            names = ", ".join(operation.name for operation in chosen)
            raise ValueError(
                f"{names}: not available at the level {level!r}, where each unit is read once and"
                " alone, so that moving it changes nothing; choose another operation, or"
                " levels='sentence'"
            )
        else:
            found[level] = above
    return found

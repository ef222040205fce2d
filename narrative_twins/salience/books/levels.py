"""The levels of a book that are scored, and the operations of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from narrative_twins.salience.books.units import LEVELS, Level
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.plans import Approximation


def check_levels(levels: str | Iterable[str]) -> tuple[Level, ...]:
    """Some levels in their order, from the highest; raises a `ValueError` if there is none or one
    is unknown."""
    names = [levels] if isinstance(levels, str) else list(levels)
    if unknown := [name for name in names if name not in LEVELS]:
        raise ValueError(f"level {unknown[0]!r} is unknown; choose from {', '.join(LEVELS)}")
    if not names:
        raise ValueError(f"no level to score; choose from {', '.join(LEVELS)}")
    return tuple(level for level in LEVELS if level in names)


def level_operations(
    levels: Sequence[Level],
    operations: str | Operation | Iterable[str | Operation] | None,
    approximate: Approximation | None,
    max_shifts: int | None,
) -> dict[Level, list[Operation]]:
    """The operations of each level. Raises a `ValueError` if a level would have none."""
    if not (operations is None or isinstance(operations, (str, Operation))):
        operations = list(operations)
    if approximate is not None and max_shifts is not None:
        raise ValueError(
            f"max_shifts={max_shifts} has no effect with approximate={approximate!r}; use one of"
            " the two"
        )
    chosen = resolve_operations(operations)
    above = [operation for operation in chosen if operation.has_one_pass]
    found: dict[Level, list[Operation]] = {}
    for level in levels:
        if level == "sentence":
            one_pass = approximate is not None
            # Not yet with `max_shifts`, which the engine applies.
            found[level] = resolve_operations(operations, one_pass=one_pass)
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

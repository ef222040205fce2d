"""The log next to an output, which an interrupted run resumes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from narrative_twins.commands.messages import on_interrupt, tell
from narrative_twins.writing import JsonlLog


def is_complete(out: str, resume: bool) -> bool:
    """Return whether a run to resume has completed the output `out`; if so, tell the user."""
    if is_done := resume and os.path.exists(out) and not os.path.exists(f"{out}.part"):
        tell(f"{out} is complete; to score again, leave out --resume")
    return is_done


def write_resumable(
    out: str,
    resume: bool,
    settings: Mapping[str, Any],
    rows: Callable[[JsonlLog], Iterable[Mapping[str, Any]]],
) -> None:
    """Write JSON Lines to a log next to the output. The log becomes the output when it is complete.

    Args:
        out: the name of the output file.
        resume: whether to continue a log that an interrupted run left.
        settings: all that the rows depend on, as JSON data.
        rows: makes, from the log, the rows that come after the rows in the log.
    """
    log = JsonlLog(f"{out}.part", settings, resume)
    with on_interrupt(f"results so far are in {log.path}; continue with --resume"), log:
        for row in rows(log):
            log.append(row)
    log.complete(out)

"""Progress of scoring: a progress bar, or calls of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tqdm.auto import tqdm


class Progress:
    """Shows the progress of some work in a bar, or reports it to a function.

    Args:
        wanted: whether to show a bar; or a function to call with the amount done.
        unit: what is counted, such as `"stories"`.
        total: how many units there are; 0 if that is not known.
        done: how many units are done already.
    """

    def __init__(
        self, wanted: bool | Callable[[float], None], unit: str, total: int = 0, done: float = 0.0
    ) -> None:
        self.done = done
        self._call = wanted if callable(wanted) else None
        self._bar: tqdm[Any] = tqdm(
            total=total or None,
            initial=done,
            desc="scoring",
            unit=f" {unit}",
            unit_scale=True,
            disable=callable(wanted) or not wanted,
        )

    def add(self, amount: float) -> None:
        """Count `amount` more as done."""
        self.reach(self.done + amount)

    def reach(self, done: float) -> None:
        """Set how much is `done` in all, and show or report it."""
        self._bar.update(done - self.done)
        self.done = done
        if self._call is not None:
            self._call(done)

    def close(self) -> None:
        """Close the bar, which stays visible."""
        self._bar.close()

"""Progress of scoring: a progress bar or calls of a function, and an estimate for long runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tqdm.auto import tqdm

LONG = 10.0
"""Users are advised if exact scoring is estimated to take more than this many seconds."""
_MEASURED = 1.0  # seconds over which the speed of scoring is measured


@dataclass
class Watch:
    """A value of the option `progress` that reports long runs. Its truth value is `bar`.

    Attributes:
        bar: whether a progress bar is shown.
        on_long: called once, with the estimated seconds of exact scoring and of one pass, if the
            first exceed `LONG`, and one pass takes less than half of them.
        called: whether `on_long` was called.
    """

    bar: bool
    on_long: Callable[[float, float], None]
    called: bool = False

    def __bool__(self) -> bool:
        return self.bar


def format_duration(seconds: float) -> str:
    """Return a time in words, rounded, such as `2 minutes`."""
    unit, size = "second", 1
    for larger, its_size in (("minute", 60), ("hour", 3600)):
        if seconds >= 0.9 * its_size:
            unit, size = larger, its_size
    count = max(1, round(seconds / size))
    return f"{count} {unit}{'s' * (count > 1)}"


class Progress:
    """Shows the progress of some work in a bar, or reports it to a function.

    Args:
        wanted: whether to show a bar; or a function to call with the amount done; or a `Watch`.
        unit: what is counted, such as `"stories"`.
        total: how many units there are; 0 if that is not known.
        done: how many units are done already.

    Attributes:
        one_pass_share: returns the time of one pass, as a share of this scoring's; default 1.
    """

    def __init__(
        self,
        wanted: bool | Callable[[float], None] | Watch,
        unit: str,
        total: int = 0,
        done: float = 0.0,
    ) -> None:
        self.done, self._first, self._total = done, done, total
        self._watch = wanted if isinstance(wanted, Watch) else None
        self.one_pass_share: Callable[[], float] = lambda: 1.0
        self._began: tuple[float, float] | None = None  # the time after the first pass, and `done`
        self._call = wanted if callable(wanted) else lambda done: None
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
        self._call(done)
        if self._watch is not None and not self._watch.called and done > self._first:
            self._estimate(self._watch)

    def _estimate(self, watch: Watch) -> None:
        """Estimate the time of the scoring by its speed after the first pass, which may be slow.
        Call `watch.on_long` if this time exceeds `LONG`, and one pass would take less than half of
        it."""
        now = time.monotonic()
        self._began = self._began or (now, self.done)
        spent, done = now - self._began[0], self.done - self._began[1]
        total = max(self._total, math.ceil(self.done))
        if spent < _MEASURED or not done or self.done >= total:
            return
        seconds = (total - self._first) * spent / done
        if seconds > LONG and (share := self.one_pass_share()) < 0.5:
            watch.called = True
            watch.on_long(seconds, seconds * share)

    def close(self) -> None:
        """Close the bar, which stays visible."""
        self._bar.close()

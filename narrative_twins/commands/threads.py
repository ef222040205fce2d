"""How many threads a command scores with, on a machine that is busy with other work."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from statistics import median

THREADS = "OMP_NUM_THREADS"
STATISTICS = Path("/proc/stat")
"""Linux tells here how many threads of all processes are running or ready to run."""
BUSY = 3
"""From how many of these per core on, one thread is used. With two threads on two cores, both have
to wait for the slower one at each step: with eight other busy processes, this took 1.6 times as
long as one thread; with two to three, either was faster at times."""


def limit_threads_if_busy() -> None:
    """Use one thread of torch and of the portable runtimes if the machine is busy, and say so,
    unless the number of threads is set in the environment."""
    cores = os.cpu_count() or 1
    if THREADS in os.environ or cores == 1:
        return
    waiting = other_threads()
    if waiting < BUSY * cores:
        return
    os.environ[THREADS] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    print(
        f"this machine is busy ({waiting} other threads want its {cores} cores), so one thread is"
        f" used; set {THREADS} to use another number",
        file=sys.stderr,
    )


def other_threads(samples: int = 7, seconds: float = 0.01) -> int:
    """How many threads of this machine other than ours are running or ready to run: the median of
    samples with so many seconds between them. 0 if the system does not tell."""
    found = []
    for _ in range(samples):
        time.sleep(seconds)
        try:
            lines = STATISTICS.read_text(encoding="ascii").splitlines()
            found.append(
                next(int(line.split()[1]) for line in lines if line.startswith("procs_running "))
                - 1
            )
        except (OSError, ValueError, StopIteration):
            return 0
    return max(0, int(median(found)))

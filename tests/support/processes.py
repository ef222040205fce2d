"""Child processes of tests. Each ends with the test that started it, with all its descendants."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

LIMIT = 900
"""Seconds to wait for anything. No step takes nearly as long, even on a busy machine; only failures
wait so long."""

COMMAND = str(Path(sys.executable).with_name("narrative-twins"))


@contextmanager
def started(*command: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a command with options of `Popen`; at the end of the block it is killed with its
    descendants."""
    with subprocess.Popen([str(part) for part in command], text=True, **options) as process:
        try:
            yield process
        finally:
            with suppress(psutil.NoSuchProcess):
                descendants = psutil.Process(process.pid).children(recursive=True)
                for each in (*descendants, process):
                    with suppress(psutil.NoSuchProcess):
                        each.kill()


def run_command(
    *command: object, input: str | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end with options of `Popen`, and capture its output."""
    pipes = {"stdin": subprocess.PIPE if input is not None else subprocess.DEVNULL}
    pipes |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(*command, **pipes | options) as process:
        out, errors = process.communicate(input, timeout=LIMIT)
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def run_python(*command: object, **options: Any) -> str:
    """Run this Python with arguments; returns the standard output. The run must succeed."""
    done = run_command(sys.executable, *command, **options)
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def wait_until(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> None:
    """Wait for a condition. Fails if the process ends first, or after `LIMIT` seconds."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        if process is not None and process.poll() is not None:
            assert condition(), f"the process has ended with {process.returncode}"
        time.sleep(0.01)

"""Tests leave no processes behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from support.processes import started

# A child that starts a grandchild in a session of its own, as launchers of distributed runs do.
CHILD = """
import subprocess, sys, time
print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid, flush=True)
time.sleep(1000)
"""


def test_processes_end_with_the_block():
    with started(sys.executable, "-c", CHILD, stdout=subprocess.PIPE) as process:
        grandchild = psutil.Process(int(process.stdout.readline()))
    assert process.returncode == -signal.SIGKILL
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_all_tests_start_processes_here():
    """Others would not end with a test that fails."""
    tests = Path(__file__).parent
    starting = {
        path.name
        for path in tests.rglob("*.py")
        if re.search(r"\b(?<!\")(Popen|subprocess\.run|os\.fork)\(", path.read_text("utf-8"))
    }
    assert starting == {"processes.py", Path(__file__).name}

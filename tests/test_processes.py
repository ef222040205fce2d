"""Tests leave no processes behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.processes import started, wait_until

# A child that starts a grandchild in a session of its own, as launchers of distributed runs do.
CHILD = """
import subprocess, sys, time
print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid, flush=True)
time.sleep(1000)
"""

FAILING = f"""
import subprocess, sys, time
from support.processes import started

def test_that_fails(tmp_path_factory):
    with started(sys.executable, "-c", {CHILD!r}, stdout=subprocess.PIPE) as process:
        with open({{pids!r}}, "w") as file:
            print(process.pid, process.stdout.readline(), file=file)
        if {{waits}}:
            time.sleep(1000)
        raise ValueError
"""


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_processes_end_with_the_block():
    with started(sys.executable, "-c", CHILD, stdout=subprocess.PIPE) as process:
        grandchild = int(process.stdout.readline())
        assert alive(grandchild) and alive(process.pid)
    assert process.returncode == -signal.SIGKILL
    assert not alive(grandchild)


@pytest.mark.parametrize("end", ["failed", "killed"])
def test_processes_end_with_a_test_that(end, tmp_path):
    pids, file = tmp_path / "pids", tmp_path / "test_fails.py"
    file.write_text(FAILING.format(pids=str(pids), waits=end == "killed"))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what they import takes seconds
    command = sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider", file
    with started(*command, env=environment, stdout=subprocess.PIPE) as process:
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        if end == "killed":
            process.kill()
        out, _ = process.communicate()
        if end == "failed":
            assert "ValueError" in out
        for pid in map(int, pids.read_text().split()):
            wait_until(lambda pid=pid: not alive(pid))


def test_all_tests_start_processes_here():
    """Others would not end with a test that fails."""
    tests = Path(__file__).parent
    starting = {
        path.name
        for path in tests.rglob("*.py")
        if re.search(r"\b(Popen|subprocess\.run|os\.fork)\(", path.read_text())
    }
    assert starting == {"processes.py", Path(__file__).name}

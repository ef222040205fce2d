"""Scoring in several processes: the results are those of one process, and all processes end."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import torch

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.salience.multiprocess import in_processes

from support import tasks
from support.processes import COMMAND, LIMIT, started, wait_until
from support.scoring import TALE, FixedScores, assert_same_result

TEXTS = ["Nadia ran. It rained.", "The mill burned down. Nobody knew.", "He left. She stayed."]
LONG = "The mill burned down and nobody knew. " * 40


@pytest.fixture(scope="module")
def encoder(bert_folder):
    options = {"device": "cpu", "dtype": "float32", "context_tokens": 60}
    return StoryEncoder.from_pretrained(bert_folder, **options)


@pytest.mark.slow
def test_results_errors_and_warnings_are_those_of_one_process(encoder, caplog):
    stories = [*TEXTS, {"id": "long", "text": LONG}, "", TALE, {"sentences": 3}, *TEXTS]
    found = {}
    for processes in (1, 2):
        errors, done = [], []
        with caplog.at_level(logging.WARNING):
            options = {"on_error": errors.append, "progress": done.append, "batch_size": 2}
            results = score_stories(iter(stories), encoder, **options, processes=processes)
            rows = [result.json() | {"index": result.index} for result in results]
            found[processes] = rows, list(map(str, errors)), caplog.messages[:], done[-1]
        caplog.clear()
    assert found[1][0]
    for row, expected in zip(found[2][0], found[1][0], strict=True):
        assert_same_result(row, expected, 1e-6)
    assert found[2][1:] == found[1][1:]
    assert len(found[2][1]) == 2 and "story 4 (long) is longer than" in found[2][2][0]


def test_what_can_not_be_pickled_is_refused_at_once(encoder):
    local = FixedScores(lambda: None)
    with pytest.raises(TypeError, match="several processes need what can be pickled: .*lambda"):
        score_stories(TEXTS, encoder, operations=local, processes=2)


# Any function of tasks


@pytest.mark.parametrize(("threads", "others"), [(1, []), (4, []), (1, ["server"])])
def test_tasks_are_in_order_read_lazily_and_end_their_processes(threads, others, monkeypatch):
    """In copies of this process only on Linux, for one thread each, and if no other thread runs."""
    copies = threads == 1 and not others
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    running = [threading.main_thread(), *(threading.Thread(name=name) for name in others)]
    monkeypatch.setattr(threading, "enumerate", lambda: running)
    read = []

    def numbers():
        for number in [*range(5), "fail", *range(1000)]:
            read.append(number)
            yield number

    with closing(in_processes(tasks.start, numbers(), 2)) as results:
        first = [next(results) for _ in range(5)]
        assert [task for _, _, task in first] == list(range(5))
        assert len(read) <= 5 + 2 * 2
        workers = [psutil.Process(pid) for pid in {pid for _, pid, _ in first}]
        this = psutil.Process()
        assert this not in workers
        are_copies = {worker.cmdline() == this.cmdline() for worker in workers}
        assert are_copies == {copies and sys.platform == "linux"}
        with pytest.raises(ValueError, match="^this task fails$"):
            next(results)
    assert not any(map(psutil.Process.is_running, workers))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "task", "kind", "message"),
    [
        (tasks.start, "strange", RuntimeError, "a worker process failed: Problem"),
        (tasks.start, "die", RuntimeError, "a worker process ended, perhaps"),
        (tasks.fail_to_start, 1, OSError, "there is no encoder"),
    ],
)
def test_errors_of_processes(start, task, kind, message):
    with closing(in_processes(start, [task], 1)) as results:
        with pytest.raises(kind, match=message):
            next(results)


def has_ended(process):
    """Whether a process has ended; it is a zombie until somebody asks for its exit code."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


TASKS = """
import sys
sys.path.insert(0, sys.argv[1])
from narrative_twins.salience.multiprocess import in_processes
from support import tasks

for number, pid, task in in_processes(tasks.start, iter(range(10**9)), 2):
    if task < 9:
        print(pid, flush=True)
"""


@pytest.mark.slow
def test_processes_end_with_a_parent_that_is_killed():
    tests = Path(tasks.__file__).parents[1]
    with started(sys.executable, "-c", TASKS, tests, stdout=subprocess.PIPE) as process:
        pids = {int(process.stdout.readline()) for _ in range(3)}
        workers = list(map(psutil.Process, pids))
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: all(map(has_ended, workers)))


# The command


@pytest.mark.slow
def test_interrupting_ends_all_processes(bert_folder, tmp_path):
    source, out, part = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    texts = (f"In {i} the mill burned. Nadia ran. " * 4 for i in range(5000))
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    command = [COMMAND, "score", "--model", bert_folder, "--batch-size", "1"]
    command += ["-f", "jsonl", "-o", out, source]
    options = {"stderr": subprocess.PIPE, "start_new_session": True}
    with started(*command, "--processes", "2", **options) as process:
        wait_until(lambda: part.exists() and part.read_text().count("\n") > 20, process)
        workers = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, err
    assert "interrupted" in err and "Traceback" not in err and "leaked" not in err
    wait_until(lambda: all(map(has_ended, workers)))
    assert all(map(json.loads, part.read_text().splitlines()))

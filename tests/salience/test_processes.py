"""Scoring in several processes: the results are those of one process, and all processes end."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from narrative_twins import StoryEncoder, StoryError, score_stories
from narrative_twins.salience.engine import in_processes

from support import tasks
from support.processes import COMMAND, LIMIT, run_command, started, wait_until
from support.scoring import TALE, FixedScores

TEXTS = [
    "Nadia ran. It rained.",
    "The mill burned down. Nobody knew. Omar wrote a word.",
    "He left. She stayed.",
]
LONG = "The mill burned down and nobody knew. " * 40


@pytest.fixture(scope="module")
def encoder(bert_folder):
    return StoryEncoder.from_pretrained(
        bert_folder, device="cpu", dtype="float32", context_tokens=60
    )


def assert_same(found, expected):
    """Rows or results are equal but for rounding."""
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        scores, others = one.pop("scores"), other.pop("scores")
        assert one == other and scores.keys() == others.keys()
        for name, values in scores.items():
            assert values == pytest.approx(others[name], abs=1e-6)


@pytest.mark.slow
def test_results_errors_and_warnings_are_those_of_one_process(encoder, caplog):
    stories = [*TEXTS, {"id": "long", "text": LONG}, "", TALE, {"sentences": 3}, *TEXTS]
    found = {}
    for processes in (1, 2):
        errors, done = [], []
        with caplog.at_level(logging.WARNING):
            results = score_stories(
                iter(stories),
                encoder,
                batch_size=2,
                on_error=errors.append,
                progress=done.append,
                processes=processes,
            )
            rows = [result.to_dict() | {"index": result.index} for result in results]
            found[processes] = rows, list(map(str, errors)), caplog.messages[:], done[-1]
        caplog.clear()
    assert_same(found[2][0], found[1][0])
    assert found[2][1:] == found[1][1:]
    assert len(found[2][1]) == 2 and "story 4 (long) is longer than" in found[2][2][0]


@pytest.mark.slow
def test_truncated_stories_as_errors_and_operations_of_users(encoder):
    options = {
        "operations": ["deletion", FixedScores([2.0, 1.0])],
        "on_truncation": "error",
        "processes": 2,
    }
    got = []
    with pytest.raises(StoryError, match="story 3: the story is longer than the 60 tokens"):
        for result in score_stories([TEXTS[0], TEXTS[2], LONG, TEXTS[0]], encoder, **options):
            got.append((result.index, result.scores["fixed"]))
    assert got == [(0, [2.0, 1.0]), (1, [2.0, 1.0])]


def test_what_can_not_be_pickled_is_refused_at_once(encoder):
    class Local(FixedScores):
        pass

    with pytest.raises(TypeError, match="several processes need what can be pickled: .*Local"):
        score_stories(TEXTS, encoder, operations=Local([1.0]), processes=2)


# Any function of tasks


def test_tasks_are_in_order_read_lazily_and_end_their_processes():
    read = []

    def numbers():
        for number in range(1000):
            read.append(number)
            yield number

    with closing(in_processes(tasks.start, numbers(), 2)) as results:
        first = [next(results) for _ in range(5)]
        assert [task for _, _, task in first] == list(range(5))
        assert len(read) <= 5 + 2 * 2
        workers = [psutil.Process(pid) for pid in {pid for _, pid, _ in first}]
        assert os.getpid() not in {worker.pid for worker in workers}
    assert not any(map(psutil.Process.is_running, workers))


@pytest.mark.parametrize(
    ("given", "expected", "kind", "message"),
    [
        ((1, 2, "fail", 4), [1, 2], ValueError, "^this task fails$"),
        (("strange",), [], RuntimeError, "a worker process failed: Problem"),
        ((1, "die", 3), None, RuntimeError, "a worker process ended, perhaps"),
    ],
)
def test_errors_of_tasks_and_processes_that_end(given, expected, kind, message):
    got = []
    with closing(in_processes(tasks.start, given, 2)) as outcomes:
        with pytest.raises(kind, match=message):
            got.extend(task for _, _, task in outcomes)
    assert expected is None or got == expected


def test_no_tasks():
    assert list(in_processes(tasks.start, (), 2)) == []


def test_processes_that_can_not_start():
    with closing(in_processes(tasks.fail_to_start, [1], 1)) as results:
        with pytest.raises(OSError, match="there is no encoder"):
            next(results)


def has_ended(process):
    """Whether a process has ended; it is a zombie until somebody asks for its exit code."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


TASKS = """
import sys
sys.path.insert(0, sys.argv[1])
from narrative_twins.salience.engine import in_processes
from support import tasks

for number, pid, task in in_processes(tasks.start, iter(range(10**9)), 2):
    if task < 9:
        print(pid, flush=True)
"""


@pytest.mark.slow
def test_processes_end_with_a_parent_that_is_killed():
    tests = Path(tasks.__file__).parents[1]
    with started(sys.executable, "-c", TASKS, tests, stdout=subprocess.PIPE) as process:
        workers = [
            psutil.Process(pid) for pid in {int(process.stdout.readline()) for _ in range(3)}
        ]
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: all(map(has_ended, workers)))


# The command


def rows_of(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.slow
def test_the_command_with_processes(bert_folder, tmp_path):
    source = tmp_path / "in.jsonl"
    rows = [{"id": i, "text": text} for i, text in enumerate([*TEXTS, "", TALE] * 5)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [COMMAND, "score", "--model", bert_folder, "--dtype", "float32", "-q"]
    command += ["-f", "jsonl", source]
    expected = run_command(*command)
    done = run_command(*command, "--processes", "2", "--batch-size", "3")
    assert (done.returncode, done.stderr) == (1, expected.stderr)
    assert_same(rows_of(done.stdout), rows_of(expected.stdout))


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
    assert rows_of(part.read_text())

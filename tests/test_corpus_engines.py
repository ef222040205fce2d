"""The examples for engines of other people, each killed in the middle: their rows are the rows of
one process.

`make corpora-test` installs the engines; without them these tests are skipped."""

import os
import signal
import sys

import psutil
import pyarrow.dataset
import pytest

from narrative_twins import StoryScorer

from support.examples import EXAMPLES
from support.processes import run_command, started, wait_until
from support.rows import read_rows, write_rows
from support.scoring import assert_same_result

pytestmark = pytest.mark.slow

TEXTS = [
    "" if n % 50 == 7 else f"Nadia ran {n} miles. It rained. The mill burned {n} times."
    for n in range(900)
]
LOADING = {"dtype": "float32", "device": "cpu"}


@pytest.fixture
def command(tmp_path, bert_folder):
    """The start of the command of an example, which reads `source` and writes `scores`."""
    rows = [{"id": f"s{n}", "text": text} for n, text in enumerate(TEXTS)]
    for number in range(6):
        write_rows(tmp_path / "source" / f"{number}.jsonl", rows[number::6])
    options = ["--out", tmp_path / "scores", "--model", bert_folder, "--dtype", "float32"]
    return lambda script, source: [sys.executable, EXAMPLES / script, source, *options]


@pytest.fixture(scope="module")
def expected(bert_folder):
    """The rows by one process, by id."""
    scorer = StoryScorer(bert_folder, loading=LOADING)
    return {f"s{n}": row for n, row in enumerate(scorer.rows(TEXTS))}


def assert_same(rows, expected):
    assert sorted(row["id"] for row in rows) == sorted(expected), "none is lost, none is duplicated"
    for row in rows:
        other = expected[row["id"]]
        assert_same_result({name: row[name] for name in other}, other)


def test_ray(command, expected, tmp_path):
    """One of two workers is killed, then the whole cluster; the same command resumes."""
    pytest.importorskip("ray", reason="ray is not installed; make corpora-test installs it")
    (home := tmp_path / "ray").mkdir()
    settings = {"--column": "text", "--rows": 50, "--workers": 2}
    options = [part for setting in settings.items() for part in setting]
    words = [*command("score_corpus_ray.py", tmp_path / "source" / "*.jsonl"), *options]
    environment = {**os.environ, "HOME": str(home), "RAY_USAGE_STATS_ENABLED": "0"}

    def shards():
        return list((tmp_path / "scores").glob("*.parquet"))

    def workers(process):
        children = psutil.Process(process.pid).children(recursive=True)
        lines = [child.as_dict(["cmdline"])["cmdline"] for child in children]  # of zombies None
        return [child for child, line in zip(children, lines, strict=True) if "MapW" in str(line)]

    with started(*words, env=environment) as process:
        wait_until(lambda: len(workers(process)) == 2 and shards(), process)
        os.kill(workers(process)[0].pid, signal.SIGKILL)
        before = len(shards())
        wait_until(lambda: process.poll() is not None or len(shards()) > before + 1)
    # All processes of the cluster are killed here, at the end of the block.
    done = run_command(*words, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    dataset = pyarrow.dataset.dataset(tmp_path / "scores", format="parquet")
    assert_same(dataset.to_table().to_pylist(), expected)


def test_datatrove(command, expected, tmp_path):
    """Killed when one of its tasks is complete; the same command resumes."""
    pytest.importorskip("datatrove", reason="make corpora-test installs datatrove")
    words = command("score_corpus_datatrove.py", tmp_path / "source")
    words += ["--tasks", "2", "--workers", "1"]
    files = [tmp_path / "scores" / f"0000{number}.jsonl" for number in (0, 1)]
    with started(*words) as process:
        wait_until((tmp_path / "scores.logs" / "completions" / "00000").exists, process)
    first = files[0].read_bytes()
    done = run_command(*words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert files[0].read_bytes() == first and sorted((tmp_path / "scores").iterdir()) == files
    rows = [row["metadata"] | {"id": row["id"]} for file in files for row in read_rows(file)]
    # The reader of datatrove leaves out documents without text.
    assert_same(rows, {name: row for name, row in expected.items() if row["error"] is None})

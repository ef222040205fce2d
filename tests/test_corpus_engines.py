"""The examples for engines of other people, each killed in the middle: their rows are those of one
process.

`make corpora-test` installs the engines; without them these tests are skipped."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from itertools import islice

import psutil
import pyarrow.dataset
import pytest

from narrative_twins import StoryScorer

from support.examples import EXAMPLES
from support.processes import run_command, started, wait_until

pytestmark = pytest.mark.slow

COUNT = 900
TEXTS = [
    "" if n % 50 == 7 else f"Nadia ran {n} miles. It rained. The mill burned {n} times."
    for n in range(COUNT)
]
OPTIONS = ("--dtype", "float32")


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    rows = [json.dumps({"id": f"s{n}", "text": text}) + "\n" for n, text in enumerate(TEXTS)]
    for number in range(6):
        (folder / f"{number}.jsonl").write_text("".join(rows[number::6]))
    return folder


@pytest.fixture(scope="module")
def expected(bert_folder):
    """The rows by one process, by id."""
    scorer = StoryScorer(bert_folder, loading={"dtype": "float32", "device": "cpu"})
    return {f"s{n}": row for n, row in enumerate(scorer.rows(TEXTS))}


def assert_same(rows, expected):
    assert sorted(row["id"] for row in rows) == sorted(expected), "none is lost, none is duplicated"
    for row in rows:
        other = expected[row["id"]]
        assert {name: row[name] for name in other} | {"scores": None} == other | {"scores": None}
        for name, scores in (other["scores"] or {}).items():
            assert row["scores"][name] == pytest.approx(scores, abs=1e-5)


def test_ray(source, expected, tmp_path, bert_folder):
    """One of two workers is killed, then the whole cluster; the same command resumes."""
    pytest.importorskip("ray", reason="ray is not installed; make corpora-test installs it")
    out, home = tmp_path / "scores", tmp_path / "ray"
    home.mkdir()
    command = [
        sys.executable,
        EXAMPLES / "score_corpus_ray.py",
        source / "*.jsonl",
        "--out",
        out,
        "--column",
        "text",
    ]
    command += [
        "--model",
        bert_folder,
        "--rows",
        "50",
        "--blocks",
        "50",
        "--workers",
        "2",
        *OPTIONS,
    ]
    environment = {**os.environ, "HOME": str(home), "RAY_USAGE_STATS_ENABLED": "0"}

    def workers(process):
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if "MapWorker" in " ".join(child.cmdline())]

    with started(*command, env=environment) as process:
        wait_until(lambda: len(workers(process)) == 2 and list(out.glob("*.parquet")), process)
        os.kill(workers(process)[0].pid, signal.SIGKILL)
        before = len(list(out.glob("*.parquet")))
        wait_until(
            lambda: process.poll() is not None or len(list(out.glob("*.parquet"))) > before + 1
        )
    # All processes of the cluster are killed here, at the end of the block.
    done = run_command(*command, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = pyarrow.dataset.dataset(out, format="parquet").to_table().to_pylist()
    assert_same(rows, expected)


def test_step_of_datatrove_takes_a_list(bert_folder):
    """Once each, as other steps do."""
    data = pytest.importorskip("datatrove.data", reason="make corpora-test installs datatrove")
    example = runpy.run_path(str(EXAMPLES / "score_corpus_datatrove.py"))
    step = example["ScoreStories"](
        rows=2, encoder=bert_folder, loading={"dtype": "float32", "device": "cpu"}
    )
    documents = [data.Document(text=text, id=str(n)) for n, text in enumerate(TEXTS[:5])]
    found = list(islice(step.run(documents), 6))
    assert [document.id for document in found] == ["0", "1", "2", "3", "4"]
    assert all(document.metadata["scores"] for document in found)


def test_datatrove(source, expected, tmp_path, bert_folder):
    """Killed when one of its tasks is complete; the same command resumes."""
    pytest.importorskip(
        "datatrove", reason="datatrove is not installed; make corpora-test installs it"
    )
    out, logs = tmp_path / "scores", tmp_path / "scores.logs"
    command = [
        sys.executable,
        EXAMPLES / "score_corpus_datatrove.py",
        source,
        "--out",
        out,
        "--tasks",
        "2",
    ]
    command += ["--model", bert_folder, "--workers", "1", *OPTIONS]
    with started(*command) as process:
        wait_until(lambda: (logs / "completions" / "00000").exists(), process)
    first = (out / "00000.jsonl").read_bytes()
    done = run_command(*command)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (out / "00000.jsonl").read_bytes() == first and sorted(
        path.name for path in out.iterdir()
    ) == ["00000.jsonl", "00001.jsonl"]
    lines = [json.loads(line) for path in out.iterdir() for line in path.read_text().splitlines()]
    # The reader of datatrove leaves out documents without text.
    scored = {name: row for name, row in expected.items() if row["error"] is None}
    assert_same([line["metadata"] | {"id": line["id"]} for line in lines], scored)

"""The job that scores a data set on the Hub: interrupted and resumed, against a local hub."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest
from datasets import load_dataset
from packaging.requirements import Requirement

from narrative_twins import StoryEncoder, score_stories

from support.examples import EXAMPLES, run

SCRIPT = EXAMPLES / "score_hub_dataset.py"
TEXTS = [
    "Nadia ran. It rained.",
    "Omar sang. A man cried.",
    " ",
    "The mill burned. She left.",
    "It was dawn. He slept.",
]
TARGET = ("datasets", "somebody/scores")


@pytest.fixture
def job(hub, tmp_path, bert_folder):
    """Runs the script with options; returns what it prints, or raises SystemExit with its error."""
    folder = tmp_path / "source"
    folder.mkdir()
    rows = [
        {"key": f"s{number}", "body": text, "other": number} for number, text in enumerate(TEXTS)
    ]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    hub.put("datasets", "somebody/stories", folder)
    command = ("somebody/stories", TARGET[1], "--column", "body", "--id-column", "key")
    command += ("--model", bert_folder, "--dtype", "float32", "--shard", "2")
    return partial(run, SCRIPT.name, *command)


def pushed() -> list[dict]:
    """The rows of the target, as plain `datasets` loads them."""
    return load_dataset(TARGET[1], split="train").to_list()


def test_an_interrupted_job_resumes(hub, job, bert_folder):
    commits = []

    def refuse(method: str, path: str) -> int | None:
        if "/commit/" in path:
            commits.append(path)
        return 403 if len(commits) == 2 and "/commit/" in path else None

    hub.fault = refuse
    with pytest.raises(SystemExit, match="nothing of what was pushed is lost"):
        job()
    shard = "scores/train-00000.parquet"
    assert set(hub.files(*TARGET)) == {".gitattributes", "README.md", "run.json", shard}
    assert b"not complete" in hub.files(*TARGET)["README.md"]
    # Rows that the source gets meanwhile are not those of the run.
    hub.repositories["datasets", "somebody/stories"]["main"].append(
        {"train.jsonl": b'{"key": "x", "body": "New."}\n'}
    )

    lines = ["Scores of rows 2 to 3", "Scores of rows 4 to 4", "Complete: 5 rows"]
    assert job().splitlines() == lines
    rows = pushed()
    assert [(row["row"], row["id"]) for row in rows] == [(n, f"s{n}") for n in range(5)]
    assert [row["row"] for row in rows if row["error"]] == [2] and "empty" in rows[2]["error"]
    encoder = StoryEncoder.from_pretrained(bert_folder, dtype="float32", device="cpu")
    scored = [row for row in rows if row["error"] is None]
    results = score_stories([TEXTS[row["row"]] for row in scored], encoder, approximate="one-pass")
    for row, result in zip(scored, results, strict=True):
        assert row["sentences"] == list(result.sentences) and row["truncated"] is False
        assert [tuple(span) for span in row["spans"]] == list(result.spans)
        for name, scores in result.scores.items():
            assert row["scores"][name] == pytest.approx(scores, abs=1e-5)
    card = hub.files(*TARGET)["README.md"].decode()
    assert "not complete" not in card and "| train | 5 |" in card
    assert "Narrative salience of somebody/stories" in card

    before = len(hub.repositories[TARGET]["main"])
    assert job() == "somebody/scores is complete: 5 rows\n"
    assert len(hub.repositories[TARGET]["main"]) == before


def test_what_is_refused(hub, job):
    with pytest.raises(SystemExit, match="has no column 'text'; it has key, body, other"):
        job("--column", "text")
    job("--limit", "1", "--operations", "summarization")
    assert [list(row["scores"]) for row in pushed()] == [["summarization"]]
    with pytest.raises(SystemExit, match="scored with another operations; choose another target"):
        job("--limit", "1")
    hub.repositories[TARGET]["main"].append({"notes.txt": b""})
    with pytest.raises(SystemExit, match="has files of something else; choose another target"):
        job()


def test_the_header_names_what_the_script_imports():
    """`uv run` installs these; the names of distributions are those of modules here."""
    text = Path(SCRIPT).read_text(encoding="utf-8")
    header = re.search(r"^# /// script\n(.*?)^# ///$", text, re.S | re.M)[1]
    data = tomllib.loads(re.sub(r"^# ?", "", header, flags=re.M))
    (requirement,) = map(Requirement, data["dependencies"])
    assert (requirement.name, requirement.extras) == ("narrative_twins", {"train"})
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert imported - set(sys.stdlib_module_names) == {
        "narrative_twins",
        "datasets",
        "huggingface_hub",
        "pyarrow",
    }

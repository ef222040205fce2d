"""The examples on small files of the same format."""

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

from narrative_twins import StoryScorer

from support.examples import EXAMPLES, run
from support.rows import write_rows
from support.scoring import assert_same_result


def cells(out: str) -> dict[str, list[str]]:
    rows = [
        [cell.strip(" *") for cell in line.split("|")[1:-1]]
        for line in out.splitlines()
        if line.startswith("|")
    ]
    return {name: figures for name, *figures in rows[2:]}


FIVE = ["Nadia ran.", "It rained.", "The mill burned down.", "Nobody knew.", "I was there."]
CHOICES = {
    "a": {"sentences": FIVE, "most_important": [3, 3, 5]},
    "b": {"story": FIVE[::-1], "most_important": ["1", "2"]},
    "c": {"sentences": FIVE, "most_important": [1, 2, 3, 4, 5]},
}


def test_score_rocstories(tmp_path, bert_folder):
    (tmp_path / "roc.json").write_text(json.dumps(CHOICES))
    command = ["score_rocstories.py", tmp_path / "roc.json", "--model", bert_folder]
    out = run(*command, "--pooling", "first")
    assert "roc: 3 stories, 15 sentences" in out
    names = [name.split()[-1] for name in cells(out)]
    assert names == ["them", "deletion", "shifting", "disruption", "summarization"]
    mean = run(*command, "--operations", "deletion")
    assert cells(mean) != cells(out)


def test_score_tripod(tmp_path, bert_folder):
    for name, points in {"train": [1, 5, 8, 10, 15], "test": [2, 3, 4, 12, 14]}.items():
        sentences = [f"In {year} the mill of {name} burned down." for year in range(1980, 1996)]
        film = {"sentences": sentences, "turning_points": points}
        (tmp_path / f"{name}.json").write_text(json.dumps({name: film}))
    command = ["score_tripod.py", tmp_path, "--model", bert_folder, "--dtype", "float32"]
    out = run(*command)
    # In windows of 3, 3, 3, 3 and 4 sentences.
    assert "2 stories, 32 sentences, 10 turning points, 2 of them (20.0%) left out" in out
    out = run(*command, "--context-tokens", 60, "--split", "test")
    assert "1 of 1 stories do not fit its context of 60 tokens" in out


def test_score_a_story():
    out = run("score_a_story.py", EXAMPLES / "stories" / "window_cleaner.txt")
    assert out.count("\n") >= 4


# The job that scores a data set on the Hub: interrupted and resumed, against a local hub


SCRIPT = EXAMPLES / "score_hub_dataset.py"
TEXTS = "Nadia ran. It rained.|Omar sang. A man cried.| |The mill burned. She left.|It was dawn."
TEXTS = TEXTS.split("|")
TARGET = ("datasets", "somebody/scores")


@pytest.fixture
def job(hub, tmp_path, bert_folder):
    """Runs the script with options; returns what it prints, or raises SystemExit with its error."""
    rows = [{"key": f"s{number}", "body": text, "other": 1} for number, text in enumerate(TEXTS)]
    file = write_rows(tmp_path / "source" / "train.jsonl", rows)
    hub.put("datasets", "somebody/stories", file.parent)
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
    expected = StoryScorer(bert_folder, loading={"dtype": "float32", "device": "cpu"}).rows(TEXTS)
    for number, (row, other) in enumerate(zip(rows, expected, strict=True)):
        assert (row.pop("row"), row.pop("id")) == (number, f"s{number}")
        assert_same_result({name: row[name] for name in other}, other)
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
    needed = {"narrative_twins", "datasets", "huggingface_hub", "pyarrow"}
    assert imported - set(sys.stdlib_module_names) == needed

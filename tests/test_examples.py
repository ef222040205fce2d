"""The examples on small files of the same format."""

import ast
import csv
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
from narrative_twins.data import load_story_salience

from support.examples import EXAMPLES, run
from support.rows import read_rows, write_rows
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


def roc_table(path, stories: dict[str, list[str]]) -> str:
    header = ["storyid", "storytitle", *(f"sentence{number}" for number in range(1, 6))]
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([header, *([key, "Mill", *s] for key, s in stories.items())])
    return str(path)


def told(number: int) -> list[str]:
    return ["It rained.", 'He said, "So what?"', "They burned.", "He left.", f"Day {number}."]


def test_roc_stories(tmp_path, capsys):
    """Stories with labels are recognized by id, or by text if they have another id."""
    first = {f"id-{n}": told(n) for n in range(8)} | {"a": [" Ünter  ran. ", *told(0)[1:]]}
    tables = [
        roc_table(tmp_path / "a.csv", first),
        roc_table(tmp_path / "b.csv", {f"id-{n}": told(n) for n in (1, 8, 9)}),
    ]
    other_case = [sentence.upper().replace(" ", "  ") for sentence in told(5)]
    labels = {"id-3": told(3), "other": other_case}, {"id-9": ["Another text.", "B."]}
    for name, stories in zip(("val.json", "test.json"), labels, strict=True):
        rows = {key: {"story": s, "most_important": ["1"]} for key, s in stories.items()}
        (tmp_path / name).write_text(json.dumps(rows), encoding="utf-8")
    exclude, out = [tmp_path / "val.json", tmp_path / "test.json"], tmp_path / "roc_train.jsonl"
    run("roc_stories.py", *tables, "--exclude", *exclude, "-o", out)
    rows = read_rows(out)
    kept = ["id-0", "id-1", "id-2", "id-4", "id-6", "id-7", "a", "id-8"]
    assert [row["id"] for row in rows] == kept
    assert rows[6] == {"id": "a", "title": "Mill", "story": ["Ünter ran.", *told(0)[1:]]}
    printed = capsys.readouterr().err
    assert "8 stories" in printed and "1 with a repeated id" in printed
    assert "2 with the id of" in printed and "1 with the text of a story with labels" in printed
    run("roc_stories.py", *tables, "--exclude", *exclude, "-o", out, "--stories", 3)
    assert len({row["id"] for row in read_rows(out)}) == 3
    (tmp_path / "c.csv").write_text("storyid,story\n1,A.\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="c.csv: has no column 'sentence1'; pass the tables"):
        run("roc_stories.py", tmp_path / "c.csv", "--exclude", *exclude, "-o", out)


def test_score_a_story():
    out = run("score_a_story.py", EXAMPLES / "stories" / "window_cleaner.txt")
    assert out.count("\n") >= 4


def test_retold_stories(tmp_path):
    """Sentences that other versions keep have higher labels; all versions of a story are in one
    half."""
    kept = ["A stranger burned the old mill.", "Nadia crossed the frozen river."]
    own = [[f"Writer {n} adds remark number {n}{m} of his own." for m in "abcdef"] for n in "xyz"]
    versions = [{"sentences": [*kept, *others]} for others in own] + [{"sentences": kept}]
    rows = [{"id": f"s{at}", "tellings": versions} for at in range(6)]
    write_rows(tmp_path / "rows.jsonl", [*rows, {"id": "x", "tellings": []}])
    run("retold_stories.py", tmp_path / "rows.jsonl", "--out", tmp_path)
    halves = [read_rows(tmp_path / f"{name}.jsonl") for name in ("looked", "unseen")]
    stories = [{row["id"].partition("-")[0] for row in half} for half in halves]
    assert stories[0] | stories[1] == {f"s{at}" for at in range(6)} and not stories[0] & stories[1]
    written = [row for half in halves for row in half]
    assert len(written) == 6 * 3, "a version of two sentences is too short to be labelled"
    for row in written:
        assert row["labels"][:2] == [1.0, 1.0] and max(row["labels"][2:]) < 0.8
    assert len(load_story_salience(str(tmp_path / "looked.jsonl"), "train")) == len(halves[0])


def test_stories_are_labelled_by_what_summaries_keep(tmp_path):
    """That the labels can be compared with choices of readers is in tests/test_paper_page.py."""
    story = ["Nadia crossed the frozen river.", "It was late.", "A stranger burned the old mill."]
    summaries = ["A stranger burned the old mill.", "The old mill was burned by a stranger."]
    row = {"id": "s", "story": story, "summaries": summaries}
    source = write_rows(tmp_path / "summaries_in.jsonl", [row])
    out = run("retold_stories.py", source, "--out", tmp_path)
    assert "summaries: 1 texts, 3 sentences" in out
    (row,) = read_rows(tmp_path / "summaries.jsonl")
    assert row["labels"][2] > 0.7 and max(row["labels"][:2]) < 0.2


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

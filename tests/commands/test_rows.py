"""Parquet files and data sets on the Hub as the input of `score` and `report`."""

from __future__ import annotations

import json
import os
from operator import length_hint

import pytest
from datasets import Dataset, disable_progress_bars

from narrative_twins.commands.cli import main
from narrative_twins.commands.rows import read_inputs
from narrative_twins.commands.story_input import StoryInput
from narrative_twins.encoder.checkpoint import default_encoder

from support.hub import Hub, running
from support.processes import COMMAND, run_command

disable_progress_bars()

ROWS = [
    {"id": "a", "story": ["Nadia ran.", "It rained."], "text": None, "twin": ["She hurried."]},
    {"id": "b", "story": None, "text": "The mill burned. It was gone.", "twin": None},
    {"id": "c", "story": None, "text": None, "twin": ["Nothing."]},
    {"id": "d", "story": ["Omar wrote a word."], "text": None, "twin": None},
]


@pytest.fixture
def parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    Dataset.from_list(ROWS).to_parquet(path)
    return path


@pytest.fixture
def score(bert_folder, capsys):
    """Runs the command in this process; returns its exit code, results and messages."""

    def call(*arguments, form="jsonl"):
        code = main(
            [
                "score",
                "--model",
                bert_folder,
                "--device",
                "cpu",
                "--format",
                form,
                *map(str, arguments),
            ]
        )
        out, errors = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], errors

    return call


def test_each_row_is_a_story(score, parquet, tmp_path):
    code, results, errors = score(parquet)
    assert (code, [result["id"] for result in results]) == (1, ["a", "b", "d"])
    assert [len(result["sentences"]) for result in results] == [2, 2, 1]
    assert f"{parquet}, row 2, id 'c': the mapping has no 'sentences', 'story' or 'text'" in errors
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert score(tmp_path / "rows.jsonl")[1] == results
    (tmp_path / "tale.txt").write_text("Nadia ran.")
    code, results, _ = score(tmp_path / "tale.txt", parquet)
    assert [result.get("id") for result in results] == [str(tmp_path / "tale.txt"), "a", "b", "d"]


def test_reports_and_resumed_runs(score, parquet, bert_folder, tmp_path):
    assert (
        main(
            [
                "report",
                "--model",
                bert_folder,
                "--device",
                "cpu",
                str(parquet),
                "-o",
                str(tmp_path / "report"),
            ]
        )
        == 1
    )
    assert (tmp_path / "report" / "index.html").is_file()
    out = tmp_path / "scores.jsonl"
    assert score(parquet, "--out", out)[0] == 1
    lines = out.read_text()
    assert score(parquet, "--out", out, "--resume")[0] == 1
    assert out.read_text() == lines


def test_files_that_cannot_be_read(score, parquet, tmp_path):
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1 and no more")
    code, results, errors = score(damaged, tmp_path / "none.parquet", parquet)
    assert (code, len(results)) == (1, 3)
    assert f"{damaged}: can't be read as parquet (" in errors
    assert (
        f"{tmp_path}/none.parquet: can't be loaded: '{tmp_path}/none.parquet' is not a local path"
        in errors
    )


def test_wrong_names_of_files_are_not_taken_for_data_sets(score, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stories").mkdir()
    for name in ("stories/tale", "tales/tale.txt", "tales/tale.md", "tale", "./tales/tale"):
        assert (
            f"{name}: can't be read (No such file or directory); check the name" in score(name)[2]
        )
    assert (
        "tales/tale: can't be loaded: 'tales/tale' is not a local path, and can't be found"
        in score("tales/tale")[2]
    )


def test_rows_are_read_lazily_and_counted(tmp_path):
    path = tmp_path / "many.parquet"
    Dataset.from_dict({"text": [f"Nadia ran {n} times." for n in range(1000)]}).to_parquet(
        path, batch_size=10
    )
    assert next(read_inputs([str(path)])).content == {"text": "Nadia ran 0 times."}
    (tmp_path / "tale.txt").write_text("Nadia ran.")
    assert length_hint(StoryInput([str(path), str(tmp_path / "tale.txt")], "auto", "auto")) == 1001
    assert length_hint(StoryInput([str(path), "somebody/stories"], "auto", "auto")) == 0
    assert length_hint(StoryInput([str(path), "none.parquet"], "auto", "auto")) == 0


def test_data_sets_on_the_hub(parquet, tmp_path):
    folder = tmp_path / "published"
    folder.mkdir()
    parquet.rename(folder / "train.parquet")
    (folder / "test.jsonl").write_text(json.dumps({"id": "t", "sentences": ["It rained."]}))
    hub = Hub("secret")
    hub.put("datasets", "somebody/stories", folder)

    def run(*names: str) -> tuple[int, list[str], str]:
        settings = {
            "HF_ENDPOINT": hub.address,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_XET": "1",
        }
        settings |= {"HF_TOKEN": "secret", "HF_HUB_OFFLINE": "0"}
        options = [
            "--model",
            default_encoder(),
            "--device",
            "cpu",
            "--operations",
            "deletion",
            "--format",
            "jsonl",
        ]
        done = run_command(COMMAND, "score", *options, *names, env=os.environ | settings)
        return (
            done.returncode,
            [json.loads(line)["id"] for line in done.stdout.splitlines()],
            done.stderr,
        )

    with running(hub):
        code, ids, errors = run("somebody/stories", "somebody/none")
        assert (code, sorted(ids)) == (1, ["a", "b", "d", "t"])
        assert "row 2, id 'c': the mapping has no 'sentences'" in errors
        assert (
            "somebody/none: can't be loaded: 'somebody/none' is not a local path, and can't be"
            " found" in errors
        )
        assert run("hf://datasets/somebody/stories/test.jsonl")[:2] == (0, ["t"])

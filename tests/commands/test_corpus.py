"""`narrative-twins score --format parquet`: corpora, in shards."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from datasets import Dataset, disable_progress_bars, load_dataset

from narrative_twins import StorySalience, score_stories
from narrative_twins.commands.cli import main

from support.hub import Hub, running
from support.processes import COMMAND, run_command, started

disable_progress_bars()


@pytest.fixture
def run(bert_folder, capsys, tmp_path, monkeypatch):
    """Runs the command in a folder of its own; returns its exit code and messages."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, out="out"):
        options = [
            "--model",
            bert_folder,
            "--device",
            "cpu",
            "--dtype",
            "float32",
            "--operations",
            "summarization",
        ]
        code = main(["score", *options, "--format", "parquet", "--out", out, *map(str, arguments)])
        printed = capsys.readouterr()
        assert printed.out == ""
        return code, printed.err

    return call


def stories(count, word="miles"):
    return [{"id": f"s{n}", "text": f"Nadia ran {n} {word}. It rained."} for n in range(count)]


def write(path, rows):
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows_of(folder="out"):
    return pyarrow.parquet.read_table(folder).to_pylist()


def test_rows_are_the_results_of_the_engine(run, bert_folder):
    write("in.jsonl", stories(5))
    code, errors = run("in.jsonl", "--shard-rows", 3)
    assert (code, errors) == (0, "narrative-twins: 5 stories in 2 shards in out (5 new)\n")
    expected = list(score_stories(stories(5), bert_folder, operations="summarization"))
    for row, result in zip(rows_of(), expected, strict=True):
        assert StorySalience.from_dict(row).to_dict() | {"scores": None} == result.to_dict() | {
            "scores": None
        }
        assert row["scores"]["summarization"] == pytest.approx(
            result.scores["summarization"], abs=1e-5
        )
    loaded = load_dataset("out", split="train")
    assert loaded.num_rows == 5 and loaded["id"][4] == "s4"
    assert run("in.jsonl", "--shard-rows", 3) == (
        0,
        "narrative-twins: 5 stories in 2 shards in out (0 new)\n",
    )


def test_files_of_all_kinds(run, tmp_path):
    write("many/b.jsonl", stories(2))
    Dataset.from_list(stories(3, "feet")).to_parquet("many/a.parquet")
    Path("many/c.csv").write_text("id,plot\nx,Nadia ran. It rained.\n")
    Path("tale.txt").write_text("The mill burned. Nobody knew.")
    write("deep/x.jsonl", stories(1))
    code, errors = run(
        "many", "tale.txt", "d*p/*.jsonl", "tale.txt", tmp_path / "tale.txt", "--column", "plot"
    )
    found = [(row["source"], row["row"], row["error"] is None) for row in rows_of()]
    assert code == 1 and "8 stories in 1 shard" in errors
    assert found[5:] == [
        ("many/c.csv", 0, True),
        ("tale.txt", 0, False),
        ("deep/x.jsonl", 0, False),
    ]
    assert "the row has no column 'plot' (it has id, text)" in rows_of()[0]["error"]
    code, errors = run("many/a.parquet", "tale.txt", "deep/*.jsonl", out="plain/")
    assert (code, [row["id"] for row in rows_of("plain")]) == (0, ["s0", "s1", "s2", None, "s0"]), (
        errors
    )


def test_stories_that_can_not_be_scored_are_rows_with_errors(run):
    Path("in.jsonl").write_text(
        '{"text": "Nadia ran."}\n{"text": \n{"text": ""}\n{"sentences": ["A b.", 3]}\n'
    )
    code, errors = run("in.jsonl")
    assert code == 1 and "3 not scored, see the column `error`" in errors
    assert [row["error"] is None for row in rows_of()] == [True, False, False, False]
    assert run("in.jsonl")[0] == 1, "also if they are not new"


def test_files_that_can_not_be_read_are_told_and_read_later(run):
    write("a.jsonl", stories(2))
    Path("b.parquet").write_bytes(b"PAR1 torn")
    code, errors = run("a.jsonl", "b.parquet", "c.jsonl")
    assert (
        code == 1
        and "b.parquet: can't be read as parquet" in errors
        and "c.jsonl: can't be read" in errors
    )
    Dataset.from_list(stories(3)).to_parquet("b.parquet")
    write("c.jsonl", stories(1))
    assert run("a.jsonl", "b.parquet", "c.jsonl") == (
        0,
        "narrative-twins: 6 stories in 2 shards in out (4 new)\n",
    )


def test_truncated_stories_are_counted(run):
    write("in.jsonl", [{"text": "The mill burned down and nobody knew. " * 200}])
    code, errors = run("in.jsonl")
    assert (
        code == 0
        and "1 longer than the encoder reads at once, see the column `truncated`" in errors
    )
    assert rows_of()[0]["truncated"]
    assert "longer" not in run("in.jsonl", "--on-truncation", "ignore")[1]
    assert run("in.jsonl", "--on-truncation", "error", out="other")[0] == 1


def test_standard_input(run, monkeypatch):
    text = "".join(json.dumps(row) + "\n" for row in stories(4))
    for number in (2, 1):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert run("-", "--shard", f"{number}/2", "--shard-rows", 2, "--quiet") == (0, "")
    assert [(row["source"], row["id"]) for row in rows_of()] == [
        ("standard input", f"s{n}") for n in (0, 1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["in.jsonl"], "--format parquet writes a folder of shards; name one with --out FOLDER"),
        (["in.jsonl", "--out", "scores.jsonl"], "--format parquet writes a folder of shards"),
        (["in.jsonl", "--out", "in.jsonl/"], "in.jsonl is read, and would be overwritten"),
        (["many", "--out", "many/scores"], "--out many/scores is in many, which is read"),
        (
            ["out/*.parquet", "--out", "out"],
            "out/scores-00000.parquet is in --out out, and is read",
        ),
        (["in.jsonl", "--out", "out", "--top", "3"], "--top and --share do not apply"),
        (
            ["in.jsonl", "--out", "out", "--shard", "0/4"],
            "'0/4' is not the number of a job and how many there are",
        ),
    ],
)
def test_options_that_are_refused(run, capsys, options, problem):
    write("in.jsonl", stories(1))
    write("many/in.jsonl", stories(1))
    write("out/scores-00000.parquet", [])
    with pytest.raises(SystemExit) as exit:
        main(["score", "--format", "parquet", *options])
    assert exit.value.code == 2 and problem in capsys.readouterr().err


def test_options_of_shards_need_the_format(run, capsys):
    for options in (["--shard", "1/2"], ["--shard-rows", "5", "--format", "jsonl"]):
        with pytest.raises(SystemExit):
            main(["score", "in.jsonl", *options])
        assert "--shard and --shard-rows need --format parquet" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["score", "in.jsonl", "--out", "scores.parquet"])
    assert "Parquet is a folder of shards here" in capsys.readouterr().err


def test_a_rerun_with_other_options_is_refused(run):
    write("in.jsonl", stories(3))
    assert run("in.jsonl")[0] == 0
    code, errors = run("in.jsonl", "--windows", "2")
    assert code == 2 and 'windows "auto" (now 2)' in errors
    code, errors = run("in.jsonl", "--score-headings")
    assert code == 2 and 'split "sentences" (now "split_sentences")' in errors
    os.mkdir("elsewhere")
    shutil.move("in.jsonl", "elsewhere")
    code, errors = run("elsewhere/in.jsonl")
    assert code == 2 and "elsewhere/in.jsonl seems to be in.jsonl, which was scored" in errors


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_writes_what_one_run_writes(tmp_path, bert_folder):
    write(tmp_path / "in" / "a.jsonl", stories(200))
    write(tmp_path / "in" / "b.jsonl", [*stories(30, "feet"), {"text": ""}])
    command = [
        COMMAND,
        "score",
        "in",
        "--model",
        bert_folder,
        "--dtype",
        "float32",
        "--shard-rows",
        "8",
        "--out",
    ]
    undisturbed = run_command(*command, "expected/", cwd=tmp_path)
    assert undisturbed.returncode == 1 and "231 stories in 29 shards" in undisturbed.stderr, (
        undisturbed.stderr
    )
    chance, manifest, kills = random.Random(7), tmp_path / "found" / "_manifest.part", 0
    for _ in range(4):
        with started(*command, "found/", cwd=tmp_path) as process:
            # After some more shards, at any moment of writing one.
            before = len(manifest.read_bytes().splitlines()) if manifest.exists() else 0
            more = before + chance.randrange(1, 6)
            while process.poll() is None and not (
                manifest.exists() and len(manifest.read_bytes().splitlines()) >= more
            ):
                time.sleep(0.001)
            time.sleep(chance.random() / 50)
            kills += process.poll() is None
            process.kill()
    assert kills == 4
    assert run_command(*command, "found/", cwd=tmp_path).returncode == 1
    found, expected = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("found", "expected")
    )
    assert found == expected


def test_an_interruption_says_how_to_go_on(tmp_path, bert_folder):
    write(tmp_path / "in.jsonl", stories(20000))
    command = [
        COMMAND,
        "score",
        "in.jsonl",
        "--model",
        bert_folder,
        "--shard-rows",
        "4",
        "--out",
        "out/",
    ]
    with started(*command, cwd=tmp_path, stderr=-1, start_new_session=True) as process:
        while not list(tmp_path.glob("out/scores-*")):
            time.sleep(0.01)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        errors = process.communicate()[1]
    assert process.returncode == 130
    assert "interrupted; the shards in out/ are complete; the same command goes on" in errors, (
        errors
    )


@pytest.mark.slow
def test_closed_pipes_do_not_matter(tmp_path, bert_folder):
    """Nothing is written to standard output, and the shards are complete before the summary."""
    write(tmp_path / "in.jsonl", stories(3))
    score = f"{COMMAND} score in.jsonl --model {bert_folder} --out"
    code = (
        f"({score} out/ 2>&1; echo $? >code) | true; {score} other/ >&- 2>&- <&-; cat code; echo $?"
    )
    done = run_command("sh", "-c", code, cwd=tmp_path)
    assert done.stdout.split()[-1] == "0", done.stderr
    assert len(rows_of(tmp_path / "out")) == len(rows_of(tmp_path / "other")) == 3
    assert (tmp_path / "out" / "_manifest").exists()


def test_data_sets_on_the_hub_are_streamed(tmp_path, bert_folder):
    source = tmp_path / "source"
    write(
        source / "train.jsonl",
        [{"id": row["id"], "body": row["text"], "n": 1} for row in stories(5)],
    )
    write(source / "test.jsonl", [{"id": "t", "body": "The mill burned. Nobody knew.", "n": 2}])
    hub = Hub("secret")
    hub.put("datasets", "somebody/stories", source)
    with running(hub):
        settings = {
            "HF_ENDPOINT": hub.address,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_OFFLINE": "0",
        }
        environment = {**os.environ, **settings, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "secret"}

        def score(*inputs):
            command = ["score", *inputs, "--model", bert_folder, "--column", "body", "--out"]
            return run_command(COMMAND, *command, "out/", cwd=tmp_path, env=environment)

        done = score("somebody/stories")
        assert done.returncode == 0, done.stderr
        assert "6 stories in 1 shard in out/ (6 new)" in done.stderr
        again = score("somebody/stories", "hf://datasets/somebody/stories/test.jsonl")
        assert "7 stories in 2 shards in out/ (1 new)" in again.stderr, again.stderr
    rows = rows_of(tmp_path / "out")
    assert {row["source"] for row in rows} == {
        "somebody/stories, train",
        "somebody/stories, test",
        "hf://datasets/somebody/stories/test.jsonl",
    }
    assert sorted(row["id"] for row in rows) == ["s0", "s1", "s2", "s3", "s4", "t", "t"]

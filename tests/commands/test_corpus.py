"""`narrative-twins corpus`: stories scored into shards."""

import json
from functools import partial

import pyarrow.parquet
import pytest
from datasets import Dataset, disable_progress_bars, load_dataset

from narrative_twins import StorySalience, score_stories

from support.command import run
from support.rows import write_rows
from support.scoring import assert_same_result

disable_progress_bars()


@pytest.fixture
def corpus(bert_folder, tmp_path):
    options = ["--model", bert_folder, "--device", "cpu", "--dtype", "float32"]
    return partial(run, "corpus", *options, "--operations", "summarization", cwd=tmp_path)


def stories(count, word="miles"):
    return [{"id": f"s{n}", "text": f"Nadia ran {n} {word}. It rained."} for n in range(count)]


def rows_of(folder):
    return pyarrow.parquet.read_table(folder).to_pylist()


def test_rows_are_the_results_of_the_engine(corpus, bert_folder, tmp_path):
    write_rows(tmp_path / "in.jsonl", stories(5))
    command = partial(corpus, "in.jsonl", "-o", "out", "--shard-rows", 3)
    summary = "narrative-twins: 5 stories in 2 shards in out ({} new)\n"
    assert command() == (0, "", summary.format(5))
    options = {"operations": "summarization", "approximate": "one-pass"}
    expected = score_stories(stories(5), bert_folder, **options)
    for row, result in zip(rows_of(tmp_path / "out"), expected, strict=True):
        assert_same_result(StorySalience.from_dict(row).json(), result.json())
    loaded = load_dataset(str(tmp_path / "out"), split="train")
    assert loaded.num_rows == 5 and loaded["id"][4] == "s4"
    assert command() == (0, "", summary.format(0))
    done = command("--exact")
    assert done.code == 2 and "started with" in done.err and "approximate" in done.err, done
    assert corpus("in.jsonl", "-o", "exact", "--exact", "--similarity", "dot").code == 0
    about = {(row["approximate"], row["similarity"]) for row in rows_of(tmp_path / "exact")}
    assert about == {(None, "dot")}


def test_files_of_all_kinds(corpus, hub, tmp_path):
    """Each once, by its first name; patterns; a column."""
    write_rows(tmp_path / "many" / "b.jsonl", stories(2))
    Dataset.from_list(stories(3, "feet")).to_parquet(tmp_path / "many" / "a.parquet")
    (tmp_path / "many" / "c.csv").write_text("id,plot\nx,Nadia ran. It rained.\n")
    (tmp_path / "tale.txt").write_text("The mill burned. Nobody knew.")
    write_rows(tmp_path / "deep" / "x.jsonl", stories(1))
    write_rows(tmp_path / "hub" / "test.jsonl", [{"plot": "Nadia ran."}])
    hub.put("datasets", "somebody/stories", tmp_path / "hub")
    files = ["many", "tale.txt", "d*p/*.jsonl", "tale.txt", tmp_path / "tale.txt"]
    names = ["somebody/stories", "hf://datasets/somebody/stories/test.jsonl"]
    done = corpus(*files, *names, "--column", "plot", "-o", "out")
    assert done.code == 1 and "10 stories in 1 shard" in done.err
    rows = rows_of(tmp_path / "out")
    assert [(row["file"], row["row"], row["error"] is None) for row in rows][5:] == [
        ("many/c.csv", 0, True),
        ("tale.txt", 0, True),
        ("deep/x.jsonl", 0, False),
        *((name, 0, True) for name in names),
    ]
    assert "the row has no column 'plot' (it has id, text)" in rows[0]["error"]
    done = corpus("many/a.parquet", "tale.txt", "deep/*.jsonl", "-o", "plain/")
    assert done.code == 0, done.err
    ids = [row["id"] for row in rows_of(tmp_path / "plain")]
    assert ids == ["s0", "s1", "s2", None, "s0"]


def test_what_can_not_be_scored_are_rows_with_errors(corpus, tmp_path):
    """And truncated stories are counted."""
    long = json.dumps({"text": "The mill burned down and nobody knew. " * 200})
    lines = [long, '{"text": ', '{"text": ""}', '{"sentences": ["A b.", 3]}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 torn")
    command = partial(corpus, "in.jsonl", "b.parquet", "c.jsonl", "-o", "out")
    for _ in range(2):  # also if they are not new
        done = command()
        assert done.code == 1 and "5 not scored, see the column `error`" in done.err
        assert "1 truncated, see the column `truncated`" in done.err
        assert "6 stories in 1 shard" in done.err
    assert "b.parquet: can't be read as parquet" in done.err and "c.jsonl: can't be" in done.err
    rows = rows_of(tmp_path / "out")
    assert [row["error"] is None for row in rows] == [True] + [False] * 5
    assert [row["truncated"] for row in rows[:2]] == [True, None]
    assert "can't be read as parquet" in rows[4]["error"]
    assert "truncated" not in command("--on-truncation", "ignore").err


def test_standard_input_and_jobs(corpus, tmp_path):
    text = "".join(json.dumps(row) + "\n" for row in stories(4))
    for job in ("2/2", "1/2"):
        options = ["--shard", job, "--shard-rows", 2, "--quiet", "-o", "out"]
        assert corpus("-", *options, input=text) == (0, "", "")
    assert "'0/4' is not a job" in corpus("-", "--shard", "0/4", "-o", "out").err
    found = [(row["file"], row["id"]) for row in rows_of(tmp_path / "out")]
    assert found == [("standard input", f"s{n}") for n in range(4)]

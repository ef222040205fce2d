"""Parquet files and data sets on the Hub as the input of commands."""

from functools import partial
from operator import length_hint

import pytest
from datasets import Dataset, disable_progress_bars

from narrative_twins.books.story_files import read_story_files
from narrative_twins.commands.score import StoryInput
from narrative_twins.commands.story_options import StoryFormat
from narrative_twins.salience.options import ScoringOptions

from support.command import run
from support.rows import write_rows

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
def score(bert_folder):
    options = ["--device", "cpu", "--dtype", "float32", "--format", "jsonl"]
    return partial(run, "score", "--model", bert_folder, *options)


def test_each_row_is_a_story(score, parquet, tmp_path):
    done = score(parquet)
    assert (done.code, [row["id"] for row in done.rows]) == (1, ["a", "b", "d"])
    assert [len(row["sentences"]) for row in done.rows] == [2, 2, 1]
    assert f"{parquet}, row 2, id 'c': the mapping has no 'sentences', 'story' or" in done.err
    write_rows(tmp_path / "rows.jsonl", ROWS)
    again = score(tmp_path / "rows.jsonl").rows
    assert again == [row | {"file": str(tmp_path / "rows.jsonl")} for row in done.rows]
    (tmp_path / "tale.txt").write_text("Nadia ran.")
    found = score(tmp_path / "tale.txt", parquet).rows
    assert [row.get("id") for row in found] == [str(tmp_path / "tale.txt"), "a", "b", "d"]
    assert score(parquet, "--out", tmp_path / "scores.jsonl").code == 1
    assert (tmp_path / "scores.jsonl").read_text() == done.out


def test_a_bad_row_of_parquet_does_not_end_the_file(score, tmp_path):
    ids = [1.0, 1.5, None, 4.0]  # as pandas writes numbers with a gap
    rows = [{"id": id, "Plot": "Nadia ran. It rained."} for id in ids]
    Dataset.from_list(rows).to_parquet(tmp_path / "a.parquet")
    done = score(tmp_path / "a.parquet")
    assert (done.code, [row.get("id") for row in done.rows]) == (1, [1, None, 4])
    assert "row 1, id 1.5: the id is float" in done.err


def test_a_text_without_full_stops_names_the_splitters(score, tmp_path):
    (tmp_path / "talk.txt").write_text("so i went down to the barn\n" * 100)
    done = score(tmp_path / "talk.txt", "--context-tokens", "64")
    assert "it has a sentence of 2,699 characters" in done.err and "--split lines" in done.err
    assert len(score(tmp_path / "talk.txt", "--split", "lines").rows[0]["sentences"]) == 100


def test_the_column_of_the_stories(score, parquet, tmp_path):
    write_rows(tmp_path / "rows.jsonl", ROWS)
    for path, name in ((parquet, "row 1, id 'b'"), (tmp_path / "rows.jsonl", "line 2 (row 1)")):
        done = score(path, "--column", "twin")
        found = [(row["id"], row["sentences"]) for row in done.rows]
        assert found == [("a", ["She hurried."]), ("c", ["Nothing."])]
        assert f"{path}, {name}: the row has nothing in the column 'twin'" in done.err
        done = score(path, "--column", "plot")
        assert done.code == 1 and "has no column 'plot' (it has id, story, text, twin)" in done.err


def test_wrong_names_of_files_are_not_taken_for_data_sets(score, tmp_path):
    (tmp_path / "stories").mkdir()
    for name in ("stories/tale", "tales/tale.md", "tale", "./tales/tale"):
        assert f"{name}: can't be read (No such file" in score(name, cwd=tmp_path).err
    found = score("tales/tale", cwd=tmp_path).err
    assert "tales/tale: can't be loaded: 'tales/tale' is not a local path" in found


def test_rows_are_read_lazily_and_counted(tmp_path):
    path = tmp_path / "many.parquet"
    rows = {"text": [f"Nadia ran {n} times." for n in range(1000)]}
    Dataset.from_dict(rows).to_parquet(path, batch_size=10)
    assert next(read_story_files([str(path)])).content == {"text": "Nadia ran 0 times."}
    (tmp_path / "tale.txt").write_text("Nadia ran.")
    scoring = ScoringOptions()
    for other, count in ((str(tmp_path / "tale.txt"), 1001), ("a/b", 0), ("none.parquet", 0)):
        assert length_hint(StoryInput([str(path), other], StoryFormat(), scoring)) == count


def test_data_sets_on_the_hub(hub, parquet, score, tmp_path):
    (tmp_path / "table").mkdir()
    parquet.rename(tmp_path / "table" / "train.parquet")
    write_rows(tmp_path / "published" / "train.jsonl", ROWS)
    write_rows(tmp_path / "published" / "test.jsonl", [{"id": "t", "sentences": ["It rained."]}])
    hub.put("datasets", "somebody/stories", tmp_path / "published")
    hub.put("datasets", "somebody/table", tmp_path / "table")
    names = ["somebody/stories", "somebody/none", "hf://datasets/somebody/stories/test.jsonl"]
    done = score(*names)
    ids = [row["id"] for row in done.rows]
    assert (done.code, sorted(ids)) == (1, ["a", "b", "d", "t", "t"])
    assert "line 3, id 'c': the mapping has no 'sentences'" in done.err
    assert "somebody/none: can't be loaded: 'somebody/none' is not a local path" in done.err
    name = "hf://datasets/somebody/table/train.parquet"
    assert len(score(name).rows) == 3

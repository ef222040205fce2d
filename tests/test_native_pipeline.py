"""The pipeline as users of transformers and datasets expect it, beside a stock pipeline where there is one."""

from __future__ import annotations

import json

import pytest
from datasets import Dataset, disable_progress_bars
from transformers import pipeline

from narrative_twins import StoryError
from narrative_twins.data import load_story_salience, load_story_twins, load_window_twins

disable_progress_bars()


@pytest.fixture(scope="module")
def salience():
    return pipeline("narrative-salience", device="cpu", dtype="float32", operations="summarization")


# Rows of data sets


@pytest.mark.parametrize("load", [load_story_twins, load_story_salience, load_window_twins])
def test_rows_of_the_package_are_stories(load, salience, tmp_path):
    rows = load(split="validation[:2]", cache_dir=str(tmp_path))
    found = list(salience(rows))
    assert [result["id"] for result in found] == rows["id"][:]
    for result, row in zip(found, rows, strict=True):
        windows = row["story"] if isinstance(row["story"][0], list) else [row["story"]]
        assert [result["sentences"][lo:hi] for lo, hi in result["windows"]] == windows
    assert salience(rows[0]) == salience([rows[0]])[0]
    path = tmp_path / "rows.jsonl"
    rows.to_json(path)
    assert [salience(json.loads(line))["sentences"] for line in path.open()] == [row["sentences"] for row in found]


STORIES = [["Nadia ran.", "It rained."], ["The mill burned.", "It was gone."]]


def test_batches_of_a_data_set(salience):
    """As in `datasets.map(batched=True)`: a column of a batch is a list of stories, a batch itself is not a story."""
    rows = Dataset.from_dict({"id": ["a", "b"], "story": STORIES, "text": [" ".join(story) for story in STORIES]})

    def scores(found):
        return {"scores": [result["scores"]["summarization"] for result in found]}

    columns = [
        rows.map(lambda batch, column=column: scores(salience(batch[column])), batched=True)["scores"][:]
        for column in ("story", "text")
    ]
    rowwise = rows.map(lambda row: {"scores": salience(row)["scores"]["summarization"]})["scores"][:]
    assert columns == [rowwise, rowwise]
    for names in (["id", "story"], ["story"], ["text"], ["id", "text"]):
        with pytest.raises(StoryError, match=r"of a batch of rows pass a single column, such as batch\['text'\]"):
            rows.select_columns(names).map(lambda batch: scores(salience(batch)), batched=True)
    with pytest.raises(StoryError, match="the id is list; .* of a batch of rows pass a single column"):
        salience(rows[:2])

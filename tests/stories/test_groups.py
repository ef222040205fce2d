"""Rows that are sentences, made stories in Python: tables of any library, and what is refused."""

import pandas
import pyarrow
import pytest
from datasets import Dataset

from narrative_twins import Story, StoryError, group_rows
from narrative_twins.stories.groups import reading_order

ROWS = [
    {"story_id": 2, "sentence_id": 2, "text": "It rained.", "label": 0.5},
    {"story_id": 1, "sentence_id": 1, "text": "He left.", "label": 0.0},
    {"story_id": 2, "sentence_id": 1, "text": "Nadia ran.", "label": 1.0},
]
TABLES = {"list": list, "pandas": pandas.DataFrame, "datasets": Dataset.from_list}
TABLES["pyarrow"] = pyarrow.Table.from_pylist


@pytest.mark.parametrize("library", TABLES)
def test_tables_of_any_library_become_stories(library):
    mill, other = group_rows(TABLES[library](ROWS), "story_id", keep=["label"])
    assert mill == {
        "id": 2,
        "sentences": ["Nadia ran.", "It rained."],
        "rows": [2, 0],
        "label": [1.0, 0.5],
    }
    assert other["rows"] == [1] and Story.parse(mill).sentences == ("Nadia ran.", "It rained.")
    in_order = group_rows(TABLES[library](ROWS), "story_id", order="row")
    assert in_order[0]["sentences"] == ["It rained.", "Nadia ran."]


def test_errors_name_the_row_and_the_column():
    for change, problem in (
        ({"story_id": None}, "row 1: the row has nothing in the column 'story_id'"),
        ({"text": " "}, "row 1: the sentence is empty"),
        ({"text": ["a"]}, "row 1: the sentence is list, not text"),
    ):
        with pytest.raises(StoryError, match=problem):
            group_rows([ROWS[0], ROWS[1] | change], "story_id")
    with pytest.raises(StoryError, match=r"row 0 and row 1 have the same value, 2, in the column"):
        group_rows([ROWS[0], ROWS[0]], "story_id", order="sentence_id")


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["10", "9", "1e1000"], [1, 0, 2]),
        ([1.5, -1, 0], [1, 2, 0]),
        (["s10", "s9", "s100"], [1, 0, 2]),
        (["b1_s2", "b1_s10", "b1_s1"], [2, 0, 1]),
        (["ff", "a1", "0c"], [0, 1, 2]),
        ([None, "", float("nan")], [0, 1, 2]),
    ],
)
def test_values_that_number_sentences_sort_them(values, order):
    places = [("n", value) for value in values]
    assert reading_order(places, [f"row {at}" for at in range(len(values))]) == order

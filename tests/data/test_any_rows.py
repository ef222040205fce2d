"""Rows of any JSON are read, or refused with their place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from narrative_twins import Story, StoryError
from narrative_twins.data import labels, rows
from narrative_twins.data.rows import RowError, check_texts, check_twins_row
from narrative_twins.making.align.long_twins import read_works
from narrative_twins.stories.reading import Document

from support.json_values import ROWS, mutations

FIVE = ["Nadia ran.", "It rained.", "The mill burned.", "Nobody knew.", "I was there."]
TWINS = [
    {
        "story": FIVE,
        "twin": FIVE[:2],
        "negative": FIVE[::-1],
        "negative_twin": FIVE,
        "id": "a",
        "title": "Mill",
    },
    {"story": [FIVE[:2], FIVE[2:]], "twin": [FIVE, FIVE], "negative": [FIVE, FIVE], "key": [0, 1]},
    {
        "story": [FIVE[:2], FIVE[2:]],
        "twin": FIVE[:3],
        "twin_windows": [[0], [1], []],
        "turning_points": [0, 1],
    },
    {
        "english_narrative": FIVE,
        "translated_narrative_twin": FIVE[:2],
        "alignment": [[0, 0], [4, 1]],
        "negative_narrative": {"section_1": FIVE[:3], "section_2": FIVE[3:]},
    },
]
SALIENCE = [{"sentences": FIVE, "most_important": [3, 3, 5]}, {"story": FIVE, "choices": [1, 2]}]
TURNING_POINTS = [{"sentences": FIVE * 2, "turning_points": [0, 2, 4, 6, 8], "title": "Mill"}]
WORKS = [
    {
        "id": 3,
        "title": "Mill",
        "story": FIVE,
        "twins": [{"text": "A b.", "language": "en", "similarity": 0.3}, FIVE],
    },
    {
        "wikidata_id": "Q1",
        "title": {"language": "de", "value": "Mühle"},
        "summaries": {"en": "# Plot\nNadia ran.", "de": "Nadia lief."},
        "en_translated_summaries": {
            "de": {"text": "Nadia ran off.", "translation_tool": "x", "source_lang": "de"}
        },
        "similarity": {"indexes": ["en", "de"], "similarities": [[0.0, 0.4], [0.4, 0.0]]},
        "anonymized": {"en": "A ran.", "de": "A ran off."},
    },
]
STORIES = [
    {"id": "a", "text": "Nadia ran. It rained.", "windows": 2},
    {"id": 3, "sentences": FIVE, "windows": [[0, 2], [2, 5]]},
    {"text": " ".join(FIVE), "sentences": FIVE, "windows": [2, 3]},
    {"sentences": [FIVE[:2], FIVE[2:]]},
]


def work(row, anonymized):
    ((_, found),) = read_works([Document("here", row)], anonymized)
    if isinstance(found, RowError):
        raise found


READERS = {
    "texts": (lambda row: check_texts(row, "here"), TWINS),
    "twins for training": (lambda row: check_twins_row(row, "here"), TWINS),
    "story twins": (lambda row: rows.story_twins(row, "here"), TWINS),
    "window twins": (lambda row: rows.window_twins(row, "here", 2), TWINS),
    "salience": (lambda row: labels.story_salience(row, "here"), SALIENCE),
    "turning points": (lambda row: rows.turning_points(row, "here", 5), TURNING_POINTS),
    "works": (lambda row: work(row, False), WORKS),
    "anonymized works": (lambda row: work(row, True), WORKS),
}


@pytest.mark.parametrize("name", READERS)
def test_valid_rows_are_read(name):
    read, valid = READERS[name]
    readable = 0
    for row in valid:
        try:
            read(row)
            readable += 1
        except RowError:
            assert valid is TWINS, "not every reader reads all forms of twins"
    assert readable


@pytest.mark.parametrize("name", READERS)
def test_any_row_is_read_or_refused_with_its_place(name):
    read, valid = READERS[name]

    @settings(max_examples=150)
    @given(ROWS | mutations(valid))
    def check(row):
        try:
            read(row)
        except RowError as error:
            assert error.where == "here" and len(str(error)) < 2000

    check()


@settings(max_examples=400)
@given(ROWS | mutations(STORIES))
def test_any_row_is_a_story_or_refused(row):
    try:
        Story.parse(row)
    except StoryError as error:
        assert len(str(error)) < 2000

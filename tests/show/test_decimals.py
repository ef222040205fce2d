"""Scores are shown with the decimals that hold in their dtype, which tables, pages and saved
results name."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from narrative_twins import BookSalience, StoryEncoder, score_book, score_stories
from narrative_twins.app.pieces import salience_curve
from narrative_twins.data.sources import corpus_rows
from narrative_twins.salience.result import shown_score
from narrative_twins.show.formats import read_results, write_results

from support.models import small
from support.results import result_of
from support.rows import write_rows
from support.tales import TALE

DECIMALS = {"float32": 3, "float64": 3, None: 3, "float16": 3, "bfloat16": 2}
SENTENCES = ["Nadia ran.", "It rained.", "The mill burned down."]


def decimals(text: str) -> list[int]:
    """The decimals of each number with some in a text; of a page, of what can be read there."""
    read = re.sub('<style.*?</style>|style="[^"]*"', "", text, flags=re.S)
    return [len(digits) for digits in re.findall(r"(?<![\d.])\d\.(\d+)", read)]


@pytest.fixture(scope="module")
def book():
    return score_book(TALE, small())


@pytest.mark.parametrize("dtype", DECIMALS)
def test_stories_and_books(book, dtype):
    number, story = DECIMALS[dtype], replace(result_of(SENTENCES), dtype=dtype)
    tale = replace(book, dtype=dtype)
    for result, results in ((story, [story]), (tale, tale)):
        pages = ["".join(write_results(results, form)) for form in ("text", "html")]
        for text in (*pages, result._repr_html_()):
            assert set(decimals(text)) == {number} and len(decimals(text)) >= 6
        for text in pages:
            assert (f"Computed in {dtype}" in " ".join(text.split())) is (dtype is not None)
            assert ("in which only 2 decimals hold." in text) is (number == 2)
    curve = salience_curve(story, "deletion").split("viewBox")[0]
    assert set(decimals(curve)) == {number}
    assert BookSalience.from_dict(json.loads(json.dumps(tale.json()))).dtype == dtype


def test_results_have_the_dtype_and_results_saved_without_one_are_read(book, tmp_path):
    (result,) = score_stories([SENTENCES], small())
    assert result.dtype == result.json()["dtype"] == book.dtype == "float32"
    old = result.json()
    del old["dtype"]
    saved = write_rows(tmp_path / "scores.jsonl", [result.json(), old])
    assert list(read_results([saved])) == [result, replace(result, dtype=None, index=1)]
    old_book = book.json()
    del old_book["dtype"]
    assert BookSalience.from_dict(old_book) == replace(book, dtype=None)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_decimals_that_are_shown_hold(default, dtype):
    """Of packaged stories: a number is that of float32, give or take one in its last place."""
    stories = [row["story"] for row in corpus_rows("stories")["validation"]][:12]
    encoder = StoryEncoder.from_pretrained(device="cpu", dtype=dtype)
    pairs = zip(score_stories(stories, default), score_stories(stories, encoder), strict=True)
    for exact, rounded in pairs:
        assert (exact.dtype, rounded.dtype) == ("float32", dtype)
        for name, scores in exact.scores.items():
            shown = [float(shown_score(score, dtype)) for score in rounded.scores[name]]
            # At most one in the last place, and the half that rounding takes.
            assert np.abs(np.array(shown) - scores).max() <= 1.5 * 10 ** -DECIMALS[dtype]

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
from narrative_twins.books.result import read_book_salience
from narrative_twins.data.sources import corpus_rows
from narrative_twins.salience.result import shown_score
from narrative_twins.show.formats import read_results, write_results

from support.models import small
from support.results import result_of
from support.tales import TALE

DECIMALS = {"float32": 3, "float64": 3, None: 3, "float16": 3, "bfloat16": 2}
SENTENCES = ["Nadia ran.", "It rained.", "The mill burned down."]


def numbers(text: str) -> list[str]:
    """The numbers with decimals in a text; of a page, those that can be read there."""
    read = re.sub('<style.*?</style>|style="[^"]*"', "", text, flags=re.S)
    return re.findall(r"(?<![\d.])\d\.\d+", read)


def decimals(text: str) -> set[int]:
    return {len(number.partition(".")[2]) for number in numbers(text)}


@pytest.mark.parametrize("dtype", DECIMALS)
def test_stories(dtype):
    result = replace(result_of(SENTENCES), dtype=dtype)
    shown = {form: "".join(write_results([result], form)) for form in ("text", "html")}
    shown["notebook"] = result._repr_html_()
    for text in shown.values():
        assert decimals(text) == {DECIMALS[dtype]}
        assert len(numbers(text)) == 6
        assert (f"Computed in {dtype}" in " ".join(text.split())) is (dtype is not None)
        assert ("in which only 2 decimals hold." in text) is (DECIMALS[dtype] == 2)
    assert decimals(salience_curve(result, "deletion").split("viewBox")[0]) == {DECIMALS[dtype]}


@pytest.fixture(scope="module")
def book():
    return score_book(TALE, small())


@pytest.mark.parametrize("dtype", DECIMALS)
def test_books(book, dtype):
    assert book.dtype == "float32"
    result = replace(book, dtype=dtype)
    for form in ("text", "html"):
        text = "".join(write_results(result, form))
        assert decimals(text) == {DECIMALS[dtype]} and len(numbers(text)) > 10
        assert (f"Computed in {dtype}" in " ".join(text.split())) is (dtype is not None)
    assert decimals(result._repr_html_()) == {DECIMALS[dtype]}
    assert BookSalience.from_dict(json.loads(json.dumps(result.json()))).dtype == dtype


def test_results_have_the_dtype_and_those_saved_without_one_are_read(book, tmp_path):
    (result,) = score_stories([SENTENCES], small())
    assert result.dtype == result.json()["dtype"] == "float32"
    old = result.json()
    del old["dtype"]
    saved, saved_book = tmp_path / "scores.jsonl", tmp_path / "book.json"
    saved.write_text("".join(f"{json.dumps(data)}\n" for data in (result.json(), old)))
    assert list(read_results([saved])) == [result, replace(result, dtype=None, index=1)]
    old_book = book.json()
    del old_book["dtype"]
    saved_book.write_text(json.dumps(old_book))
    assert read_book_salience(saved_book) == replace(book, dtype=None)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_decimals_that_are_shown_hold(default, dtype):
    """Of packaged stories: a number is that of float32, give or take one in its last place."""
    stories = [row["story"] for row in corpus_rows("stories")["validation"]][:12]
    encoder = StoryEncoder.from_pretrained(device="cpu", dtype=dtype)
    worst = 0.0
    for exact, found in zip(
        score_stories(stories, default), score_stories(stories, encoder), strict=True
    ):
        assert (exact.dtype, found.dtype) == ("float32", dtype)
        for name, scores in exact.scores.items():
            shown = [float(shown_score(score, dtype)) for score in found.scores[name]]
            worst = max(worst, np.abs(np.array(shown) - scores).max())
    # At most one in the last place, and the half that rounding takes.
    assert worst <= 1.5 * 10 ** -DECIMALS[dtype]

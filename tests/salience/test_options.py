"""The options of scoring: one object, made once where a call or a command begins."""

import pytest
from transformers import pipeline

from narrative_twins import StoryScorer, score_book, score_stories
from narrative_twins.books import book_table
from narrative_twins.pipeline import TASK
from narrative_twins.salience.options import ScoringOptions

from support.command import run
from support.models import small

BOOK = "Chapter 1\n\nNadia ran. It rained.\n\nChapter 2\n\nThe mill burned. Nobody knew."
STORIES = ["Nadia ran. It rained.", "", "The mill burned. Nobody knew."]


@pytest.fixture
def made(monkeypatch):
    """The options that are made during a test."""
    made, check = [], ScoringOptions.__post_init__

    def record(options):
        made.append(options)
        check(options)

    monkeypatch.setattr(ScoringOptions, "__post_init__", record)
    return made


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book.txt").write_text(BOOK)
    return tmp_path / "book.txt"


def test_options_of_a_book_are_made_once(made, book):
    assert len(book_table(book).chapters) == 2
    score_book(book, small())
    assert len(made) == 1


def test_options_of_stories_are_made_once(made):
    assert len(list(score_stories(STORIES, small(), on_error="skip", operations="deletion"))) == 2
    assert len(made) == 1
    list(score_stories(STORIES, small(), ScoringOptions(on_error="skip")))
    assert len(made) == 2


def test_options_of_a_pipeline_are_made_once_and_once_for_a_call(made, bert_folder):
    salience = pipeline(TASK, model=bert_folder, device="cpu", operations="deletion")
    assert len(made) == 1
    salience(STORIES[0])
    assert len(made) == 2
    salience(STORIES, on_error="skip")
    assert len(made) == 3


def test_options_of_a_scorer_are_made_once_for_all_batches(made):
    scorer = StoryScorer(small())
    for _ in range(3):
        assert [row["error"] is None for row in scorer.rows(STORIES)] == [True, False, True]
    assert len(made) == 1


def test_a_command_makes_options_and_adds_its_progress(made, book, bert_folder):
    assert run("book", book, "--model", bert_folder, "--device", "cpu", "-f", "json").code == 0
    assert len(made) == 2


def test_fields_of_a_call_change_its_options():
    options = ScoringOptions(operations=["deletion", "shifting"], batch_size=5)
    assert ScoringOptions.of_call(options, {}) is options
    changed = ScoringOptions.of_call(options, {"approximate": "one-pass"}, batch_size=7)
    assert (changed.batch_size, changed.one_pass, options.one_pass) == (5, True, False)
    assert ScoringOptions.of_call(None, {"windows": 2}, batch_size=7).batch_size == 7

"""Calls as users of pandas, polars, pyarrow, sentence-transformers and databases write them: rows of
tables as stories, rows of saved scores as results, and errors that say what to pass instead."""

import sqlite3
from collections import namedtuple
from contextlib import closing
from functools import partial

import pandas
import pyarrow
import pytest
import torch
from datasets import Dataset
from transformers import pipeline

from narrative_twins import (
    NarrativeTwinsTrainer,
    SalienceEvaluator,
    SalienceLoss,
    Story,
    StoryEncoder,
    StorySalience,
    StoryScorer,
    TwinsCollator,
    score_stories,
)

from support.models import small, trainable
from support.scoring import FixedScores

TEXTS = ["Nadia ran. It rained. She fell.", "It was dark. A gull cried."]
COLUMNS = {"id": ["a", "b"], "text": TEXTS}
SENTENCES = [("Nadia ran.", "It rained.", "She fell."), ("It was dark.", "A gull cried.")]


@pytest.fixture
def salience(bert_folder):
    return pipeline("narrative-salience", model=bert_folder, operations="deletion")


def database_rows():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        query = "select ? as id, ? as text union all select ?, ?"
        return connection.execute(query, ["a", TEXTS[0], "b", TEXTS[1]]).fetchall()


ROWS = {
    "rows of pandas": lambda: [row for _, row in pandas.DataFrame(COLUMNS).iterrows()],
    "named tuples of pandas": lambda: list(pandas.DataFrame(COLUMNS).itertuples()),
    "named tuples": lambda: list(map(namedtuple("Row", COLUMNS), *COLUMNS.values())),
    "rows of a database": database_rows,
    "structs of pyarrow": lambda: list(pyarrow.table(COLUMNS).to_struct_array()),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_row_of_a_table_is_a_story_with_its_id(kind):
    stories = map(Story.parse, ROWS[kind]())
    assert dict(zip("ab", SENTENCES, strict=True)) == {each.id: each.sentences for each in stories}


def test_a_pipeline_takes_one_row_or_cells(salience):
    table = pandas.DataFrame(COLUMNS)
    assert salience(table.iloc[1])["id"] == salience(next(table[1:].itertuples()))["id"] == "b"
    cells = list(salience(pyarrow.array(TEXTS)))
    assert [tuple(result["sentences"]) for result in cells] == SENTENCES
    # A column of sentences is the sentences of a story.
    assert Story.parse(pandas.Series(SENTENCES[0])).sentences == SENTENCES[0]


@pytest.mark.parametrize("kind", ["numpy", "torch", "pandas", None])
def test_a_row_of_saved_scores_is_a_result(salience, kind, tmp_path):
    expected = salience(TEXTS)
    plain = [result.json() for result in expected]
    if kind == "pandas":
        pandas.DataFrame(plain).to_parquet(tmp_path / "scores.parquet")
        rows = pandas.read_parquet(tmp_path / "scores.parquet").to_dict("records")
    else:
        rows = list(Dataset.from_list(plain).with_format(kind))
    for row, result in zip(map(StorySalience.from_dict, rows), expected, strict=True):
        assert (row.sentences, row.spans) == (result.sentences, result.spans)
        assert row.scores["deletion"] == pytest.approx(result["scores"]["deletion"], abs=1e-6)
        assert type(row.context_tokens) is int


class PolarsLike:
    """A table that iterates over its columns, as polars does."""

    def get_columns(self):
        return list(COLUMNS.values())

    def __iter__(self):
        return iter(COLUMNS.values())

    def to_dict(self):
        return dict(COLUMNS)


def test_a_scorer_takes_tables_of_pandas_and_polars(bert_folder):
    scorer = StoryScorer(bert_folder, column="text", operations="deletion")
    expected = scorer(COLUMNS)["scores"]
    assert scorer(pandas.DataFrame(COLUMNS))["scores"] == expected
    assert scorer(PolarsLike())["scores"] == expected


HINT = "unknown option '{}'; .*{}"
TABLE = r"story 1: a story is not a table.*with_format\(None\)"
COLUMN = r"pass a column, .*to_pylist\(\) of pyarrow"
LOADER = torch.utils.data.DataLoader(TEXTS, batch_size=2)
BATCHES = "a DataLoader has batches .* loader.dataset"
ONE_PASS = {"approximate": "one-pass"}
REFUSED = [
    (LOADER, {}, BATCHES),
    (Dataset.from_dict(COLUMNS).with_format("pandas"), {}, TABLE),
    (Dataset.from_dict(COLUMNS).with_format("arrow"), {}, TABLE),
    (pyarrow.table(COLUMNS), {}, COLUMN),
    # Options of other pipelines have a hint at what serves.
    ("A b.", {"truncation": 1}, HINT.format("truncation", "on_truncation=")),
    ("A b.", {"max_length": 1}, HINT.format("max_length", "context_tokens=N")),
    ("A b.", {"padding": 1}, HINT.format("padding", "attention='packed'")),
    ("A b.", {"top_k": 1}, HINT.format("top_k", r"top\(k\)")),
]
REFUSED_AT_ONCE = [
    (TEXTS, {"operations": ["delete"]}, "'delete'.*did you mean 'deletion'"),
    (TEXTS, {"batch_size": 0}, "batch_size=0"),
    (TEXTS, {"processes": 1.5}, "choose a whole number of at least 1"),
    (TEXTS, {"on_error": "panic"}, "on_error='panic'"),
    (TEXTS, {"similarity": "L2"}, "similarity='L2': choose 'cosine' or 'dot' or 'euclidean'"),
    (TEXTS, {"splitter": "pysbd"}, "splitter='pysbd': choose 'auto', 'sentences', 'lines'"),
    (TEXTS, {"shifts": 1}, "unexpected keyword argument 'shifts'"),
    (TEXTS, {"encoder": 5}, "an encoder is a StoryEncoder, a folder or a Hub id"),
    (TEXTS, {"operations": FixedScores([0.0])} | ONE_PASS, "no one-pass form; .*, or score exac"),
    (TEXTS[0], {}, "put it in a list"),
    (pandas.DataFrame(COLUMNS), {}, "not a list of stories; pass a column"),
    (None, {}, "expected a story or several stories, not NoneType"),
]


def test_what_a_pipeline_refuses(salience):
    for stories, options, problem in REFUSED:
        with pytest.raises((TypeError, ValueError), match=problem):
            list(salience(stories, **options))


def test_what_the_function_refuses_before_anything_is_read():
    for stories, options, problem in REFUSED_AT_ONCE:
        with pytest.raises((TypeError, ValueError), match=problem):
            score_stories(**{"stories": stories, "encoder": small()} | options)


TO_ENCODER = r".*StoryEncoder\.from_sentence_transformer\(model\)"


def test_other_encoders_and_tokenizers_are_refused_with_what_to_pass(bert_folder):
    model = trainable()
    tokens = rf"tokens is \w+, {TO_ENCODER}\.tokenizer"
    for call, argument, problem in (
        (lambda model: score_stories(TEXTS, model), model, TO_ENCODER),
        (TwinsCollator, model.tokenizer, tokens),
        (SalienceLoss(model, "deletion").collator, model.tokenizer, tokens),
        (NarrativeTwinsTrainer, bert_folder, r"model is str, .*trainable_encoder\(model\)"),
        (SalienceEvaluator, "stories", "a row is str, .*load_story_salience"),
        (partial(NarrativeTwinsTrainer, model, None), [{"story": ["A."]}], r"Dataset\.from_list"),
    ):
        with pytest.raises(TypeError, match=problem):
            call(argument)
    assert TwinsCollator(StoryEncoder.from_sentence_transformer(model).tokenizer).tokens


def test_an_encoder_shows_what_it_is(bert_folder):
    shown = repr(StoryEncoder.from_pretrained(bert_folder, device="cpu", dtype="float32"))
    assert shown == f"<StoryEncoder {bert_folder}: mean pooling, 512 tokens, float32, cpu>"

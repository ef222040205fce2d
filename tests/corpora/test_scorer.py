"""The callable that scores batches of rows."""

import pickle

import numpy
import pyarrow
import pytest
from datasets import Dataset, disable_progress_bars

from narrative_twins import OPERATIONS, StoryEncoder, StoryError, StoryScorer, score_stories
from narrative_twins.corpora import COLUMNS

disable_progress_bars()

TEXTS = ["Nadia ran. It rained.", " ", "The mill burned down. Nobody knew. Omar wrote a word."]
OPTIONS = {"operations": ["summarization", "deletion"], "approximate": None}


@pytest.fixture
def scorer(encoder):
    return StoryScorer(encoder, column="text", **OPTIONS)


def test_a_batch_has_the_results_of_the_engine(scorer, encoder):
    texts = numpy.array(TEXTS, object)
    batch = scorer({"key": numpy.array([5, 6, 7]), "text": texts, "error": ["a", "b", "c"]})
    added = [name for name in COLUMNS if name != "error"]
    assert list(batch) == ["key", "text", "error", *added] and list(batch["key"]) == [5, 6, 7]
    assert batch["error"] == [None, "the story is empty; give it at least one sentence", None]
    assert [batch[name][1] for name in added] == [None] * 10
    results = score_stories(TEXTS[::2], encoder, **OPTIONS)
    for row, result in zip((0, 2), results, strict=True):
        assert {name: batch[name][row] for name in added} | {"row": result.row} == result.json()


def test_rows_that_are_sentences_are_noticed_once(scorer, caplog):
    for _ in range(2):
        scorer({"text": ["Nadia ran.", "It rained.", "He left. She stayed."]})
    assert caplog.text.count("2 of the 3 stories are one sentence") == 1


def test_tables_have_the_same_types_whatever_is_in_them(scorer):
    table = pyarrow.table({"text": TEXTS, "windows": ["x", "y", "z"]})
    scored, failed = scorer(table), scorer(table.slice(1, 1))
    assert scored.schema == failed.schema and scored.column_names[:2] == ["text", "windows"]
    added = scored.select(list(COLUMNS))
    assert added.schema == scorer.schema and failed["scores"].to_pylist() == [None]
    assert added.to_pylist() == scorer.rows(TEXTS)


def test_datasets_map(scorer, bert_folder):
    rows = Dataset.from_dict({"text": TEXTS, "n": [1, 2, 3]})
    mapped = rows.map(scorer, batched=True, batch_size=2)
    assert mapped.column_names == ["text", "n", *COLUMNS]
    arrow = rows.with_format("arrow").map(scorer, batched=True, batch_size=1)
    assert arrow.with_format(None)["sentences"] == mapped["sentences"]
    # The encoder is not part of what the cache of `datasets` is found by, once it is loaded.
    lazy = StoryScorer(bert_folder, column="text", loading={"device": "cpu"})
    first, again = (rows.map(lazy, batched=True) for _ in range(2))
    assert lazy.encoder is not None and first._fingerprint == again._fingerprint


def test_it_is_pickled_without_the_encoder_that_it_loads(bert_folder):
    options = {"column": "text", "operations": "summarization"}
    scorer = StoryScorer(bert_folder, loading={"device": "cpu", "dtype": "float32"}, **options)
    before = len(pickle.dumps(scorer))
    expected = scorer({"text": TEXTS})
    assert len(pickle.dumps(scorer)) == before < 2000
    assert pickle.loads(pickle.dumps(scorer))({"text": TEXTS}) == expected
    loaded = StoryScorer(StoryEncoder.from_pretrained(bert_folder), **options)
    assert pickle.loads(pickle.dumps(loaded)).encoder.model.name_or_path == bert_folder


def test_one_pass_is_the_default(encoder, bert_folder):
    """Of an encoder that does not pool the mean, it is an error before anything is written."""
    (row,) = StoryScorer(encoder).rows(TEXTS[:1])
    assert row["approximate"] == "one-pass" and list(row["scores"]) == list(OPERATIONS)
    first = {"device": "cpu", "pooling": "first"}
    with pytest.raises(ValueError, match="needs mean pooling; score exactly"):
        StoryScorer(bert_folder, loading=first).settings  # noqa: B018
    assert StoryScorer(bert_folder, loading=first, approximate=None).settings["approximate"] is None


def test_rows_without_a_column_and_what_is_refused(scorer, encoder):
    story = ["Nadia ran.", "It rained."]
    rows = StoryScorer(encoder, operations="summarization")
    batch = rows({"id": ["a", "b"], "sentences": [story, None], "text": [None, TEXTS[0]]})
    assert batch["id"] == ["a", "b"] and batch["sentences"] == [story] * 2
    errors = [row["error"] for row in scorer.rows([StoryError("it is torn"), TEXTS[0]])]
    assert errors == ["it is torn", None]
    with pytest.raises(ValueError, match="there is no column 'text'; there are body, id"):
        scorer({"body": TEXTS, "id": [1, 2, 3]})
    for each in (scorer, rows):
        with pytest.raises(ValueError, match=r"'text' is one text, .*map\(scorer, batched=True\)"):
            Dataset.from_dict({"text": TEXTS}).map(each)

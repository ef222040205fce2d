"""The command `narrative-twins make align`."""

from functools import partial

import numpy as np
import pytest
from datasets import disable_progress_bars

from narrative_twins import TwinsCollator, push_dataset
from narrative_twins.commands.make_align import parse_similarities
from narrative_twins.data import load_window_twins
from narrative_twins.data.rows import check_twins_row
from narrative_twins.hub.facts import DatasetFacts, read_facts
from narrative_twins.making.long_twins import MAX_SIMILARITY, OTHER_LANGUAGES

from support.command import run
from support.models import SENTENCES, small
from support.rows import read_rows, write_rows

disable_progress_bars()

STORY = [f"{sentence} ({n})" for n, sentence in enumerate(SENTENCES * 3)][:24]
TWINS = [[f"{sentence} So it was." for sentence in STORY[start:]] for start in range(3)]
FRENCH = {"sentences": TWINS[0], "language": "fr", "similarity": 0.99}
WORKS = [
    {"id": f"w{n}", "title": f"Work {n}", "story": [f"{n}. {one}" for one in STORY], "twins": TWINS}
    for n in range(5)
]
WORKS += [
    {"id": "short", "story": STORY[:19], "twins": TWINS},
    {"id": "lone", "story": STORY, "twins": []},
    {"id": "translated", "story": STORY, "twins": [FRENCH]},
]


@pytest.fixture
def works(tmp_path):
    return write_rows(tmp_path / "works.jsonl", WORKS)


@pytest.fixture
def align(bert_folder, works, tmp_path):
    # A random encoder finds all sentences similar, so most of a story may be aligned to one
    # sentence of the twin.
    options = ["--encoder", bert_folder, "--device", "cpu", "--min-window", "1"]
    command = ["make", "align", "works.jsonl", "--out", "twins.jsonl", *options]
    return partial(run, *command, cwd=tmp_path)


@pytest.mark.slow
def test_with_the_default_encoder(works, tmp_path):
    """The twins have nearly the same sentences as the story, so these are in the same windows."""
    done = run("make", "align", "works.jsonl", "--out", "twins.jsonl", cwd=tmp_path)
    assert done.code == 0 and done.err == "", done.err
    counts = "8  works read|1  works with a story that is too short|2  works without a twin"
    counts += "|5  works kept, with a twin|twins.jsonl, with its facts twins.facts.yaml"
    assert all(words in done.out for words in counts.split("|"))
    rows = read_rows(tmp_path / "twins.jsonl")
    assert [row["id"] for row in rows] == [f"w{n}" for n in range(5)]
    for row in rows:
        start = len(STORY) - len(row["twin"])
        window_of = [w for w, window in enumerate(row["story"]) for _ in window]
        found = [window_of[start + j] in windows for j, windows in enumerate(row["twin_windows"])]
        assert sum(found) / len(found) > 0.9


def test_the_pooler_of_bert_aligns_other_sentences(align, tmp_path):
    """As SimCSE is published: a BERT with the weights of its pooler."""
    windows = []
    for pooling in ("checkpoint", "pooler"):
        assert align("--pooling", pooling).code == 0
        assert f"- sentence pooling: {pooling}\n" in (tmp_path / "twins.facts.yaml").read_text()
        windows.append([row["twin_windows"] for row in read_rows(tmp_path / "twins.jsonl")])
    assert windows[0] != windows[1]


def test_rows_train_and_are_pushed_with_their_facts(align, hub, tmp_path):
    assert align("--windows", 4, "--language", "de").code == 0
    data, cache = str(tmp_path / "twins.jsonl"), str(tmp_path / "cache")
    rows = load_window_twins(data, split="train", cache_dir=cache)
    assert [len(row["story"]) for row in rows] == [4] * 5 and rows[0]["title"] == "Work 0"
    for row in rows:
        check_twins_row(row, "twins")
    batch = TwinsCollator(small().tokenizer)(list(rows))
    assert set(batch["texts_window_ids"].unique().tolist()) == {-1, 0, 1, 2, 3}
    facts = read_facts(DatasetFacts, tmp_path / "twins.facts.yaml")
    push_dataset(load_window_twins(data, cache_dir=cache), "somebody/twins", facts=facts)
    card = hub.files("datasets", "somebody/twins")["README.md"].decode()
    lines = "| train | 5 |\n- works read: 8\n- works kept, with a twin: 5\n- works of: works.jsonl"
    assert all(words in card for words in lines.split("\n"))
    assert facts.language == "de" and str(tmp_path) not in card and "Omar" not in card


def test_invalid_works_are_reported_and_skipped(align, works, tmp_path):
    works.write_text('{"id": "x"}\n' + works.read_text())
    done = align()
    assert done.code == 1 and "1  works that are invalid" in done.out
    assert "works.jsonl, line 1: is not a work (KeyError: 'story')" in done.err
    assert len(read_rows(tmp_path / "twins.jsonl")) == 5


def test_filters(align, tmp_path):
    done = align("--min-sentences", 100)
    assert done.code == 1 and (tmp_path / "twins.jsonl").read_text() == ""
    assert "twins.jsonl has no rows: no work has a twin that passes the filters" in done.err
    for limit, kept in (("de=0.7", False), ("0.5,fr=1", True)):
        assert align("--max-similarity", limit, "--max-difference", 0).code == 0
        ids = [row["id"] for row in read_rows(tmp_path / "twins.jsonl")]
        assert ("translated" in ids) == kept
    assert "not a list of similarities" in align("--max-similarity", "high").err
    assert parse_similarities("fr=0.7") == {**MAX_SIMILARITY, "fr": 0.7}
    assert parse_similarities("0.5, fr=0.7") == {OTHER_LANGUAGES: 0.5, "fr": 0.7}


def test_anonymized_twins(align, works, tmp_path):
    twin = [sentence.replace("Nadia", "Ada") for sentence in STORY[1:]]
    anonymized = {"en": " ".join(["Bea ran.", *STORY[1:]]), "de": " ".join(twin)}
    write_rows(works, [{"summaries": {"en": " ".join(STORY)}, "anonymized": anonymized}])
    assert align("--anonymized", "--max-difference", "5").code == 0
    (row,) = read_rows(tmp_path / "twins.jsonl")
    assert "Nadia" in " ".join(row["story"][0]) and "Bea" not in str(row["story"])
    assert "Ada" in " ".join(row["twin"]) and "Nadia" not in " ".join(row["twin"])
    words = "names of 'Tell me again!' replaced: in the twins only"
    assert f"- {words}" in (tmp_path / "twins.facts.yaml").read_text()


def test_released_takes_the_spread_of_the_stories(align, works, tmp_path):
    """Of those that are long enough and have other versions; brackets are removed."""
    longer = {"id": "longer", "story": [f"{n}. {one}" for n, one in enumerate(STORY * 2)][:34]}
    write_rows(works, [*WORKS[:3], {**longer, "twins": [STORY]}])
    done = align("--released", "--windows", "1")
    assert done.code == 0, done.err
    rows = read_rows(tmp_path / "twins.jsonl")
    assert not any("(" in text for row in rows for text in row["twin"])
    spread = float(np.std([len(STORY)] * 3 + [34]))
    assert f"max_difference: {spread:g}\n" in (tmp_path / "twins.facts.yaml").read_text("utf-8")
    assert align("--released", "-").code == 2, "the works are read twice"

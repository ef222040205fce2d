"""The corpora that come with the package: their rows, and the figures in their cards."""

import zlib
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from huggingface_hub import DatasetCard
from pyarrow.parquet import read_schema
from scipy.stats import entropy

import narrative_twins.data
from narrative_twins.data import load_story_salience, load_story_twins, load_window_twins

PACKAGE = Path(narrative_twins.data.__file__).parent
CARDS = Path(__file__).parents[2] / "hub_cards"
LOAD = {
    "stories": load_story_twins,
    "synopses": load_window_twins,
    "everyday": partial(load_story_salience, name="everyday"),
    "prose": partial(load_story_salience, name="prose"),
    "translations": partial(load_story_twins, name="translations"),
}
ROWS = {
    "stories": {"train": 1721, "validation": 199},
    "synopses": {"train": 443, "validation": 37},
    "everyday": {"train": 1711, "validation": 209},
    "prose": {"train": 251, "validation": 37},
    "translations": {"train": 240, "validation": 720},
}
LANGUAGES = ["ar", "de", "es", "fr", "hi", "it", "ja", "ko", "pt", "ru", "tr", "zh"]


def original(id_: str) -> str:
    """The id of the English story of a translation; other ids are returned as they are."""
    return id_[:-3] if id_[-3:].removeprefix("-") in LANGUAGES else id_


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> dict:
    cache = str(tmp_path_factory.mktemp("cache"))
    return {name: load(cache_dir=cache) for name, load in LOAD.items()}


def card(name: str) -> str:
    return (CARDS / f"dataset_card_{name}.md").read_text(encoding="utf-8")


def line(*cells) -> str:
    return f"| {' | '.join(map(str, cells))} |"


@pytest.mark.parametrize("name", LOAD)
def test_rows_and_splits(corpora, name):
    ids = {split: set(found["id"]) for split, found in corpora[name].items()}
    assert {split: len(found) for split, found in ids.items()} == ROWS[name]
    held_out = {
        id_ for id_ in set().union(*ids.values()) if zlib.crc32(original(id_).encode()) % 10 == 0
    }
    assert held_out == ids["validation"]
    assert all(line(split, f"{count:,}") in card(name) for split, count in ROWS[name].items())
    assert f"{sum(ROWS[name].values()):,} " in card(name)
    assert sum(file.stat().st_size for file in (PACKAGE / name).iterdir()) < 1e6


@pytest.mark.parametrize("name", LOAD)
def test_cards_describe_columns_and_licence(name):
    data, text = DatasetCard(card(name)).data, card(name)
    languages = sorted([*LANGUAGES, "en"]) if name == "translations" else "en"
    assert (data.license, data.language) == ("cc0-1.0", languages)
    columns = read_schema(PACKAGE / name / "validation.parquet").names
    assert all(f"| `{column}` |" in text for column in columns)
    plain = text.index("from datasets import load_dataset")
    assert plain < text.index("from narrative_twins.data import")


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("stories", ("story_votes", "negative_votes")),
        ("translations", ("story_votes", "negative_votes")),
        ("everyday", ("counts",)),
    ],
)
def test_votes_of_the_cards(corpora, name, columns):
    rows = [row for split in corpora[name].values() for row in split]
    votes = np.array([row[column] for row in rows for column in columns])
    shares = votes / votes.sum(axis=1, keepdims=True)
    assert votes.shape[1] == 5 and (votes.sum(axis=1) == 10).all()
    assert line("share of votes", *(f"{share:.2f}" for share in shares.mean(axis=0))) in card(name)
    assert f"(the perplexity) is {2 ** entropy(shares, base=2, axis=1).mean():.2f}" in card(name)


def test_sizes_of_the_cards(corpora):
    texts = [row["story"] for split in corpora["prose"].values() for row in split]
    words = mean(len(" ".join(story).split()) for story in texts)
    text = " ".join(card("prose").split())
    assert f"{mean(map(len, texts)):.1f} sentences" in text and f"{words:.0f} words on" in text
    synopses = [row for split in corpora["synopses"].values() for row in split]
    assert {len(window) for row in synopses for window in row["story"]} == {4, 5, 6}
    assert {len(row["story"]) for row in synopses} == {5}
    assert {len(row["turning_points"]) for row in synopses} == {5}
    assert {len(windows) for row in synopses for windows in row["twin_windows"]} == {1}


def test_translations_have_their_originals_as_twins_and_their_votes(corpora, tmp_path):
    for split, rows in corpora["translations"].items():
        originals = {row["id"]: row for row in corpora["stories"][split]}
        for row in rows:
            english = originals[original(row["id"])]
            assert (row["twin"], row["negative_twin"]) == (english["story"], english["negative"])
            for column in ("story_votes", "negative_votes"):
                assert row[column] == english[column]
            for column in ("story", "negative"):
                assert len(row[column]) == 5 and not {*row[column]} & {*english[column]}
        counts = Counter(row["id"][-2:] for row in rows)
        assert counts == dict.fromkeys(LANGUAGES, len(rows) // 12)
    judged = load_story_salience(
        split="validation", name="translations", distractors=True, cache_dir=str(tmp_path)
    )
    assert len(judged) == 2 * 720 and judged[1]["id"] == f"{judged[0]['id']}-negative"

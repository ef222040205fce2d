"""The corpora that come with the package: their rows, and the figures in their cards."""

from __future__ import annotations

import shutil
import zlib
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow.parquet
import pytest
from datasets import load_dataset
from huggingface_hub import DatasetCard
from scipy.stats import entropy

import narrative_twins.data
from narrative_twins.data import load_story_salience, load_story_twins, load_window_twins
from narrative_twins.evaluation.metrics import spearman

PACKAGE = Path(narrative_twins.data.__file__).parent
CARDS = Path(__file__).parents[2] / "hub_cards"
LOAD = {
    "stories": load_story_twins,
    "synopses": load_window_twins,
    "everyday": partial(load_story_salience, name="everyday"),
    "prose": partial(load_story_salience, name="prose"),
}
ROWS = {
    "stories": {"train": 1721, "validation": 199},
    "synopses": {"train": 443, "validation": 37},
    "everyday": {"train": 1711, "validation": 209},
    "prose": {"train": 251, "validation": 37},
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> dict:
    cache = str(tmp_path_factory.mktemp("cache"))
    return {name: load(cache_dir=cache) for name, load in LOAD.items()}


@pytest.fixture(scope="module")
def rows(corpora) -> dict[str, list[dict]]:
    return {
        name: [row for split in corpus.values() for row in split]
        for name, corpus in corpora.items()
    }


def card(name: str) -> str:
    return (CARDS / f"dataset_card_{name}.md").read_text(encoding="utf-8")


def words(sentences: list[str]) -> int:
    return sum(len(sentence.split()) for sentence in sentences)


def flat(windows: list[list[str]]) -> list[str]:
    return [sentence for window in windows for sentence in window]


def line(*cells) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


@pytest.mark.parametrize("name", LOAD)
def test_rows_and_splits(corpora, name):
    corpus = corpora[name]
    assert {split: len(found) for split, found in corpus.items()} == ROWS[name]
    ids = {split: set(found["id"]) for split, found in corpus.items()}
    assert {split: len(found) for split, found in ids.items()} == ROWS[name]
    assert {
        id_ for found in ids.values() for id_ in found if zlib.crc32(id_.encode()) % 10 == 0
    } == ids["validation"]
    assert all(line(split, f"{count:,}") in card(name) for split, count in ROWS[name].items())
    assert f"{sum(ROWS[name].values()):,} " in card(name)
    assert sum(file.stat().st_size for file in (PACKAGE / name).iterdir()) < 1e6


@pytest.mark.parametrize("name", LOAD)
def test_card_and_files_are_a_valid_repository(corpora, name, tmp_path):
    """`datasets` alone loads the repository as on the Hub, with the same rows."""
    repository, text = tmp_path / "repository", card(name)
    shutil.copytree(PACKAGE / name, repository)
    (repository / "README.md").write_text(text, encoding="utf-8")
    found = load_dataset(str(repository), cache_dir=str(tmp_path / "cache"))
    assert {split: part["id"][:] for split, part in found.items()} == {
        split: part["id"][:] for split, part in corpora[name].items()
    }
    if name in ("stories", "synopses"):
        assert found["validation"].features == corpora[name]["validation"].features
        assert found["validation"].to_list() == corpora[name]["validation"].to_list()
    data = DatasetCard(text).data
    assert (data.license, data.language) == ("cc0-1.0", "en")
    assert all(f"| `{column}` |" in text for column in found["train"].features)
    plain = text.index("from datasets import load_dataset")
    assert plain < text.index("from narrative_twins.data import")


def test_card_of_stories(rows):
    stories, text = rows["stories"], card("stories")
    changed = [
        [a != b for a, b in zip(row["story"], row["negative"], strict=True)] for row in stories
    ]
    first = [differs.index(True) for differs in changed]
    first_f_to_h = [
        index for index, row in zip(first, stories, strict=True) if row["id"][0] in "FGH"
    ]
    columns = ("story", "twin", "negative", "negative_twin")
    length = {column: mean(words(row[column]) for row in stories) for column in columns}
    by_index = [sum(differs[i] for differs in changed) for i in range(5)]
    for expected in (
        line("rows", *map(first.count, range(5))),
        line("of them F to H", *map(first_f_to_h.count, range(5))),
        line("rows", *map([sum(differs) for differs in changed].count, range(1, 6))),
        line("words", *(f"{length[column]:.1f}" for column in columns)),
        f"{by_index[4]:,} of the last against {by_index[1]:,} of the\n  second",
        f"by {length['twin'] / length['story'] - 1:.0%} on average".replace("%", " %"),
    ):
        assert expected in text
    votes = np.array(
        [row[column] for row in stories for column in ("story_votes", "negative_votes")]
    )
    shares = votes / votes.sum(axis=1, keepdims=True)
    perplexity = 2 ** (entropy(shares, base=2, axis=1).mean())
    assert line("share of votes", *(f"{share:.2f}" for share in shares.mean(axis=0))) in text
    assert f"(the perplexity) is {perplexity:.2f}" in text and (votes.sum(axis=1) == 10).all()
    assert {row["id"][0] for row in stories} == set("ABCDEFGH")
    assert all(len(row[column]) == 5 for row in stories for column in columns)


def test_card_of_everyday_stories(rows):
    stories, text = rows["everyday"], card("everyday")
    votes = np.array([row["counts"] for row in stories])
    shares = votes / votes.sum(axis=1, keepdims=True)
    assert (votes.sum(axis=1) == 10).all() and {len(row["story"]) for row in stories} == {5}
    assert line("share of votes", *(f"{share:.2f}" for share in shares.mean(axis=0))) in text
    assert f"(the perplexity) is {2 ** (entropy(shares, base=2, axis=1).mean()):.2f}" in text
    assert f"has {mean(words(row['story']) for row in stories):.1f} words on average" in text


def test_card_of_prose(rows):
    texts, card_text = rows["prose"], card("prose")
    files = [pyarrow.parquet.read_table(file) for file in (PACKAGE / "prose").iterdir()]
    kinds = [kind for file in files for kind in file["kind"].to_pylist()]
    order = ("diary", "old diary", "story", "tale", "modern", "told")
    assert line("kind", *(f"`{kind}`" for kind in order)) in card_text and set(kinds) == set(order)
    assert line("texts", *map(kinds.count, order)) in card_text
    place = mean(spearman(range(len(row["labels"])), row["labels"]) for row in texts)
    length = mean(spearman([len(s.split()) for s in row["story"]], row["labels"]) for row in texts)
    for expected in (
        f"{mean(len(row['story']) for row in texts):.1f} sentences",
        f"{mean(words(row['story']) for row in texts):.0f} words on average",
        f"a mean label of {mean(mean(row['labels']) for row in texts):.2f}",
        f"the place at {place:.2f} (Spearman)",
        f"the sentence at {length:.2f}",
    ):
        assert expected in " ".join(card_text.split())


def test_card_of_synopses(rows):
    synopses, text = rows["synopses"], card("synopses")
    columns = {column: [flat(row[column]) for row in synopses] for column in ("story", "negative")}
    columns["twin"] = [row["twin"] for row in synopses]
    order = ("story", "twin", "negative")
    indices, lengths = [], []
    for row in synopses:
        starts = accumulate(map(len, row["story"]), initial=0)
        indices += [
            point - start for point, start in zip(row["turning_points"], starts, strict=False)
        ]
        for i, sentence in enumerate(flat(row["story"])):
            lengths.append((row["id"][0], i in row["turning_points"], words([sentence])))

    def length(ids: str, turning: bool) -> str:
        return f"{mean(n for letter, is_point, n in lengths if letter in ids and is_point == turning):.1f}"

    for expected in (
        line("words", *(f"{mean(map(words, columns[column])):.0f}" for column in order)),
        line("sentences", *(f"{mean(map(len, columns[column])):.1f}" for column in order)),
        line("turning points", *map(indices.count, range(6))),
        line("J to O", length("JKLMNO", True), length("JKLMNO", False)),
        line("P to U", length("PQRSTU", True), length("PQRSTU", False)),
        line("all", length("JKLMNOPQRSTU", True), length("JKLMNOPQRSTU", False)),
    ):
        assert expected in text
    assert {row["id"][0] for row in synopses} == set("JKLMNOPQRSTU")
    assert {len(window) for row in synopses for window in row["story"]} == {4, 5, 6}
    assert {len(windows) for row in synopses for windows in row["twin_windows"]} == {1}
    assert (
        {len(row["story"]) for row in synopses}
        == {len(row["turning_points"]) for row in synopses}
        == {5}
    )

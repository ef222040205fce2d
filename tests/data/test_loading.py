"""Loading: formats, the cache, rows that are left out, several processes, ROCStories."""

from __future__ import annotations

import csv
import gzip
import json
import os
import tempfile
from functools import partial
from pathlib import Path

import pytest
from data.conftest import write
from datasets import Dataset, DatasetDict, Features, IterableDataset, IterableDatasetDict
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import SalienceEvaluator, Story, StoryError
from narrative_twins.data import (
    RocStoriesBuilder,
    RowError,
    StoryTwinsBuilder,
    WindowTwinsBuilder,
    load_roc_stories,
    load_story_salience,
    load_story_twins,
    load_turning_points,
    load_window_twins,
)
from narrative_twins.training.batches import checked_rows

from support.models import trainable
from support.strategies import any_text, sentence

TWINS = {"id": "a", "story": ["Nadia ran."], "twin": ["She hurried."]}


def is_sentence(text: str) -> bool:
    try:
        return bool(Story.parse([text]))
    except StoryError:
        return False


sentences = st.lists(sentence | any_text.filter(is_sentence), min_size=1, max_size=4)


@st.composite
def story_rows(draw) -> dict:
    row = {"story": draw(sentences), "twin": draw(sentences)}
    row |= {name: draw(st.none() | sentences) for name in ("negative", "negative_twin")}
    for column in ("story", "negative"):
        count = len(row[column] or ())
        votes = st.lists(st.integers(0, 9), min_size=count, max_size=count).filter(any)
        row[f"{column}_votes"] = draw(st.none() | votes) if count else None
    return row


@st.composite
def window_rows(draw) -> dict:
    story = draw(st.lists(sentences, min_size=1, max_size=3))
    count = len(story)
    candidates = st.lists(st.integers(0, count - 1), max_size=2, unique=True)
    windows = [*([w] for w in range(count)), *draw(st.lists(candidates, max_size=3))]
    negatives = st.lists(sentences, min_size=count, max_size=count)
    last = sum(map(len, story)) - 1
    return {
        "title": draw(st.none() | any_text),
        "story": story,
        "twin": draw(st.lists(sentence, min_size=len(windows), max_size=len(windows))),
        "twin_windows": windows,
        "negative": draw(st.none() | negatives),
        "turning_points": draw(st.none() | st.lists(st.integers(0, last), max_size=5)),
    }


@pytest.mark.parametrize("name", ["r.jsonl", "r.ndjson.gz", "r.json", "r.json.gz", "r.parquet"])
@pytest.mark.parametrize(
    ("builder", "function", "drawn"),
    [
        (StoryTwinsBuilder, load_story_twins, story_rows()),
        (WindowTwinsBuilder, load_window_twins, window_rows()),
    ],
    ids=["story", "window"],
)
@settings(max_examples=4)
@given(data=st.data())
def test_rows_are_unchanged_by_every_format(name, builder, function, drawn, data):
    """Prepared and streamed; the Parquet files are those that the data set itself exports."""
    rows = data.draw(st.lists(drawn, min_size=1, max_size=4))
    rows = [{"id": f"row {i}", **row} for i, row in enumerate(rows)]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / name, rows, builder.FEATURES)
        assert function(path, "train", cache_dir=folder).to_list() == rows
        assert list(function(path, "train", streaming=True)) == rows


def test_ids_and_types(cached, tmp_path):
    path = write(tmp_path / "rows.jsonl", [TWINS, {**TWINS, "id": None}, {**TWINS, "id": 7}])
    get = partial(cached(load_story_twins), path)
    assert get()["train"]["id"][:] == ["a", "rows.jsonl:1", "7"]
    assert type(get()) is DatasetDict and type(get("train")) is Dataset
    assert get("train[:1]").num_rows == 1
    assert type(get(streaming=True)) is IterableDatasetDict
    assert type(get("train", streaming=True)) is IterableDataset
    with pytest.raises(ValueError, match="test"):
        get("test")
    keyed = write(tmp_path / "keyed.json", {"x": {"story": ["A."], "twin": ["B."]}})
    assert get.func(keyed, "train")["id"][:] == ["x"]


def test_errors_name_the_row(cached, tmp_path):
    path = write(tmp_path / "rows.jsonl", [TWINS, {**TWINS, "id": "b", "twin": ["A.", " "]}])
    for streaming in (False, True):
        with pytest.raises(RowError) as raised:
            list(cached(load_story_twins)(path, "train", streaming=streaming))
        place = f"{path}, line 2, id 'b': 'twin': sentence 1 is empty"
        assert str(raised.value).startswith(place)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", b'\n{"story": ["A."]\n', r"rows.jsonl, line 2: is not valid JSON"),
        ("rows.jsonl", b"[]\n", r"line 1: is list; a row must be an object of columns"),
        ("rows.jsonl", b'{"id": "\xff"}', r"line 1: is not UTF-8"),
        ("rows.jsonl", b'{"id": 1.5}', "the id is float"),
        ("rows.json", b'{"a": ', "rows.json: can't be read"),
        ("rows.json", b"3", "rows.json: contains int; a list of rows is needed"),
        ("rows.json", b'{"story": []}', "rows.json, row 0, id 'story': is list; a row must be"),
        ("rows.json.gz", gzip.compress(b"[]", mtime=0)[:-9], "rows.json.gz: can't be read"),
        ("rows.json.gz", b"[]", "rows.json.gz: can't be read"),
        ("rows.parquet", b"PAR1", "rows.parquet: can't be read"),
        ("rows.csv", b"id,story\n1,A.\n", "the columns of the table are 'id', 'story'; it needs"),
    ],
)
def test_unreadable_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RowError, match=message):
        load_story_twins(tmp_path / name, cache_dir=str(tmp_path / "cache"))


# Rows that are left out


def synopsis(sizes, twin_sizes) -> dict:
    """A row as published, whose windows of story and twin have these sizes."""
    windows_of = [w for w, size in enumerate(sizes) for _ in range(size)]
    twin_windows = [w for w, size in enumerate(twin_sizes) for _ in range(size)]
    return {
        "english_narrative": [f"Sentence {i}." for i in range(sum(sizes))],
        "translated_narrative_twin": [f"Line {j}." for j in range(sum(twin_sizes))],
        # A sentence of the twin is aligned to the first sentence of its window.
        "alignment": [[windows_of.index(w), j] for j, w in enumerate(twin_windows)],
    }


rows_of_sizes = st.tuples(
    st.integers(1, 5), st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any)
)


@settings(max_examples=15)
@given(
    rows=st.lists(rows_of_sizes, min_size=1, max_size=6),
    min_window=st.sampled_from([None, 1, 2, 4]),
)
def test_rows_with_short_windows_are_left_out(rows, min_window):
    """The others are loaded in order, from the cache or not."""
    least, rows = min_window or 3, [*rows, (5, [5, 5, 5])]
    kept = [f"r{n}" for n, (size, twin) in enumerate(rows) if min(size, *twin) >= least]
    with tempfile.TemporaryDirectory() as folder:
        content = {f"r{n}": synopsis([size] * 3, twin) for n, (size, twin) in enumerate(rows)}
        path = write(Path(folder) / "rows.json", content)
        get = partial(load_window_twins, path, "train", windows=3, min_window=min_window)
        for options in ({"cache_dir": folder}, {"cache_dir": folder}, {"streaming": True}):
            assert [row["id"] for row in get(**options)] == kept


def test_rows_that_are_left_out_are_reported(cached, tmp_path, warnings):
    rows = {"a": synopsis([3, 3], [3, 3]), "b": synopsis([3, 3], [3, 2]), "c": synopsis([1], [3])}
    path = write(tmp_path / "rows.json", rows)
    get = partial(cached(load_window_twins), path, "train", windows=2)
    warning = (
        "train: 2 of 3 rows are left out, which have too few sentences in a window (min_window);"
        f" the first is {path}, row 1, id 'b': window 1 of 'twin' has 2 sentence(s), fewer than 3"
    )
    for streaming in (False, True):
        assert [row["id"] for row in get(streaming=streaming)] == ["a"]
        assert warnings() == [warning]
    with pytest.raises(ValueError, match="min_window=0: a window needs at least 1 sentence"):
        get(min_window=0)


# The cache


def test_cache_is_used_until_files_change(cached, tmp_path, load):
    path = write(tmp_path / "rows.jsonl", [TWINS])
    get = partial(cached(load_story_twins), path, "train")
    (first,) = get().cache_files
    before = os.stat(first["filename"]).st_ino
    for mode, same in (("reuse_dataset_if_exists", True), ("force_redownload", False)):
        (found,) = get(download_mode=mode).cache_files
        assert (os.stat(found["filename"]).st_ino == before) == same
    assert get(keep_in_memory=True).cache_files == []
    assert len(load(load_story_twins, [TWINS, TWINS])) == 2
    assert load(load_story_twins, [{**TWINS, "id": "b"}])[0]["id"] == "b"


def test_columns_and_settings_do_not_share_a_cache(load, monkeypatch):
    """The same file is loaded by all functions, and after an update that adds columns."""
    row = {
        "story": ["A.", "B.", "C.", "D."],
        "twin": ["A."],
        "alignment": [[0, 0], [3, 0]],
        "turning_points": [0, 1, 2, 3, 3],
        "choices": [1],
    }
    for windows in (1, 2):
        (found,) = load(load_window_twins, [row], windows=windows, min_window=1)
        assert len(found["story"]) == windows
    assert len(load(load_turning_points, [row], windows=2)[0]["windows"]) == 2
    assert "counts" in load(load_story_salience, [row])[0]
    columns = list(load(load_story_twins, [row])[0])
    assert columns == list(StoryTwinsBuilder.FEATURES)
    other = Features(reversed(StoryTwinsBuilder.FEATURES.items()))
    monkeypatch.setattr(StoryTwinsBuilder, "FEATURES", other)
    assert list(load(load_story_twins, [row])[0]) == columns[::-1]


def test_data_sets_say_what_they_are():
    for streaming in (False, True):
        info = load_story_twins(split="validation", streaming=streaming).info
        assert "narrative twins" in info.description and info.license == "cc0-1.0"
        assert "Contrastive Learning with Narrative Twins" in info.citation


# Tables


HEADER = ["storyid", "storytitle", *(f"sentence{number}" for number in range(1, 6))]


def told(number: int) -> list[str]:
    return ["It rained.", 'He said, "So what?"', "They burned.", "He left.", f"Day {number}."]


def table(path: Path, rows: list[list[str]], header: list[str] = HEADER) -> str:
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def roc(path: Path, *numbers: int) -> str:
    return table(path, [[f"id-{n}", f"Mill {n}", *told(n)] for n in numbers])


def labelled(path: Path, stories: dict[str, list[str]]) -> str:
    """Labels in the form of the paper's files."""
    rows = {
        name: {"storytitle": "Mill", "story": story, "most_important": ["5", "4"]}
        for name, story in stories.items()
    }
    path.write_text(json.dumps(rows))
    return str(path)


def test_tables_of_rocstories(cached, tmp_path, warnings):
    load = cached(load_roc_stories)
    rows = [["a", "Rain", " Nadia  ran. ", "It rained,\nthen", "Ünter.", "D.", "E."]]
    files = [table(tmp_path / "a.csv", rows), roc(tmp_path / "b.csv", 1, 2)]
    found = load(files)["train"]
    assert found.features == RocStoriesBuilder.FEATURES
    assert found["id"][:] == ["a", "id-1", "id-2"] and found[1]["story"] == told(1)
    assert found[0]["story"] == ["Nadia ran.", "It rained, then", "Ünter.", "D.", "E."]
    assert found[0]["title"] == "Rain" and found[0]["labels"] is None
    assert warnings() == []
    packed = tmp_path / "roc.csv.gz"
    packed.write_bytes(gzip.compress(Path(files[1]).read_bytes()))
    assert load(packed, "train")["id"][:] == ["id-1", "id-2"]


def test_stories_with_labels_are_left_out(cached, tmp_path, warnings):
    """They are found by id, or by text if they have another id; they are the other splits."""
    load = cached(load_roc_stories)
    files = [roc(tmp_path / "a.csv", *range(8)), roc(tmp_path / "b.csv", 1, *range(8, 12))]
    other_case = [sentence.upper().replace(" ", "  ") for sentence in told(5)]
    (tmp_path / "labels").mkdir()
    val = labelled(tmp_path / "labels" / "val.json", {"id-3": told(3), "other": other_case})
    test = {"id-9": ["Another text.", "B.", "C.", "D.", "E."], "absent": ["A."] * 5}
    test = labelled(tmp_path / "labels" / "test.json", test)
    reasons = (
        "train: stories that are left out: 1 with a repeated id, 2 with the id of a story with"
        " labels, 1 with the text of a story with labels"
    )
    kept = [f"id-{n}" for n in (0, 1, 2, 4, 6, 7, 8, 10, 11)]
    for exclude in (tmp_path / "labels", {"validation": val, "test": [test]}):
        found = load(files, exclude=exclude, streaming=True)
        assert [row["id"] for row in found["train"]] == kept
        (warning,) = warnings()
        assert set(warning.replace(": ", ", ").split(", ")) == set(
            reasons.replace(": ", ", ").split(", ")
        )
        found = load(files, exclude=exclude)
        assert set(found) == {"train", "validation", "test"}
        assert found["train"]["id"][:] == kept
        same = cached(load_story_salience)(val, "train")
        assert found["validation"].to_list() == same.to_list()
        warnings()
    one = load(files, exclude=val)
    assert {split: len(rows) for split, rows in one.items()} == {"train": 10, "labelled": 2}
    _, twinless = checked_rows(one["train"], "stories")
    assert twinless == "a row without a twin (stories, row 0)", "dropout twins are needed"
    metrics = SalienceEvaluator(one["labelled"], operations="summarization")(trainable())
    assert any(name.endswith("summarization_auc") for name in metrics)


numbers = st.lists(st.integers(0, 9), max_size=8)
some = st.sets(st.integers(0, 9))


@settings(max_examples=12)
@given(first=numbers, second=numbers, by_id=some, by_text=some)
def test_no_story_with_labels_is_in_the_training_set(first, second, by_id, by_text):
    """And all others are, once each, in the order of the files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [roc(folder / "a.csv", *first), roc(folder / "b.csv", *second, 10)]
        stories = {f"id-{n}": ["Corrected.", *told(n)[1:]] for n in by_id}
        stories |= {f"other-{n}": told(n) for n in by_text}
        exclude = labelled(folder / "labels.json", stories)
        found = load_roc_stories(files, "train", exclude=exclude, cache_dir=f"{folder}/cache")
        expected = [
            f"id-{n}" for n in dict.fromkeys([*first, *second, 10]) if n not in by_id | by_text
        ]
        assert [row["id"] for row in found] == expected


def test_other_files_than_tables_of_rocstories(cached, tmp_path):
    load = cached(load_roc_stories)
    val = labelled(tmp_path / "val.json", {"id-1": told(1)})
    with pytest.raises(ValueError, match="val.json is not a .csv; pass the tables of ROCStories"):
        load([roc(tmp_path / "roc.csv", 1), val])
    with pytest.raises(RowError, match="synopsis with turning points; load it with load_turning"):
        load(tripod(tmp_path / "tripod.csv", ("The Mill", ["A."], 0, 0, 0, 0, 0)))
    for row, problem in (
        (["a", "t", "A.", "B.", "", "D.", "E."], "id 'a': 'story': sentence 2 is empty"),
        (["a", "t", "A."], "id 'a': 'story': sentence 1 is empty"),
    ):
        with pytest.raises(RowError, match=rf"short.csv, line 2, {problem}"):
            load(table(tmp_path / "short.csv", [row]))


def tripod(path: Path, *rows: tuple) -> str:
    header = ["movie_name", "synopsis_raw", "synopsis_segmented", "tp1", "tp2", "tp3", "tp4", "tp5"]
    cells = [
        [name, "", " ".join(f"[STR_SENT] {text} [END_SENT]" for text in texts), *points]
        for name, texts, *points in rows
    ]
    return table(path, cells, header)


def test_table_of_tripod(cached, tmp_path):
    """Invented sentences with the flaws of the real ones."""
    flawed = [
        "Omar (Ann Lee (junior)) buys\u00a0a mill , which is  old .",
        "[2]",
        'He says: "They let [him] in!"[Note 3]',
        "It burns,\nthe ﬁre \u2014 all of it.",
        "A .45 lies there (why?).",
        "The end...",
    ]
    rows = [("The Mill_1", ["A."], 0, 0, 0, 0, 0), ("The Mill_0", flawed, 0, 2, 3, 4, 5)]
    path = tripod(tmp_path / "synopses.csv", *rows)
    (found,) = cached(load_turning_points)(path, "train")
    assert found == {
        "id": "The Mill_0",
        "story": [
            "Omar buys a mill, which is old.",
            'He says: "They let [him] in!"',
            "It burns, the fire \u2014 all of it.",
            "A .45 lies there.",
            "The end...",
        ],
        "windows": [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]],
        "turning_points": [0, 1, 2, 3, 4],
    }
    (judged,) = cached(load_story_salience)(path, "train")
    assert (judged["story"], judged["labels"]) == (found["story"], [1] * 5)

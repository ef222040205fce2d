"""Loading: formats, the cache, rows that are left out, tables."""

import csv
import gzip
import os
from functools import partial

import pyarrow.parquet
import pytest
from data import test_rows
from data.conftest import write
from datasets import Dataset, DatasetDict, Features, IterableDataset, IterableDatasetDict

from narrative_twins.data import (
    RowError,
    load_story_salience,
    load_story_twins,
    load_turning_points,
    load_window_twins,
    select_split,
)
from narrative_twins.data.file_formats import read_records
from narrative_twins.data.loading import StoryTwinsBuilder, WindowTwinsBuilder
from narrative_twins.stories import reading

from support.memory import memory_below

TWINS = {"id": "a", "story": ["Nadia ran."], "twin": ["She hurried."]}
SHORT = test_rows.TWINS | {"story": ["Nadia ran.", "\u2028 It \U0001f600."], "negative": None}
LONG = test_rows.SYNOPSIS


@pytest.mark.parametrize("name", ["r.jsonl", "r.ndjson.gz", "r.json.gz", "r.parquet"])
@pytest.mark.parametrize(
    ("builder", "function", "row"),
    [(StoryTwinsBuilder, load_story_twins, SHORT), (WindowTwinsBuilder, load_window_twins, LONG)],
    ids=["story", "window"],
)
def test_rows_are_unchanged_by_every_format(cached, tmp_path, name, builder, function, row):
    """Prepared and streamed; the Parquet files are those that the data set itself exports."""
    rows = [{"id": f"row {i}", **row} for i in range(2)]
    path = write(tmp_path / name, rows, builder.FEATURES)
    assert cached(function)(path, "train").to_list() == rows
    assert list(function(path, "train", streaming=True)) == rows


SAVED = {
    "r.json": ("to_json", {}),
    "l.json": ("to_json", {"lines": False}),
    "r.json.gz": ("to_json", {"compression": "gzip"}),
    "r.parquet": ("to_parquet", {}),
}


@pytest.mark.parametrize("count", [1, 2])
def test_rows_that_data_sets_save_are_loaded(cached, tmp_path, count):
    """`to_json` writes JSON Lines, whatever the name."""
    rows = [{"id": f"row {i}", **SHORT} for i in range(count)]
    for name, (save, options) in SAVED.items():
        path = str(tmp_path / name)
        getattr(Dataset.from_list(rows, features=StoryTwinsBuilder.FEATURES), save)(path, **options)
        assert cached(load_story_twins)(path, "train").to_list() == rows


def test_ids_types_and_places_of_errors(cached, tmp_path):
    path = write(tmp_path / "rows.jsonl", [TWINS, {**TWINS, "id": None}, {**TWINS, "id": 7}])
    get = partial(cached(load_story_twins), path)
    assert get()["train"]["id"][:] == ["a", "rows.jsonl:1", "7"]
    assert type(get()) is DatasetDict and type(get("train")) is Dataset
    assert type(get(streaming=True)) is IterableDatasetDict
    assert type(get("train", streaming=True)) is IterableDataset
    keyed = write(tmp_path / "keyed.json", {"x": {"story": ["A."], "twin": ["B."]}})
    assert get.func(keyed, "train")["id"][:] == ["x"]
    path = write(tmp_path / "bad.jsonl", [TWINS, {**TWINS, "id": "b", "twin": ["A.", " "]}])
    for streaming in (False, True):
        with pytest.raises(RowError, match=r"line 2, id 'b': 'twin': sentence 1 is empty"):
            list(get.func(path, "train", streaming=streaming))


UNREADABLE = [
    ("rows.jsonl", b'\n{"story": ["A."]\n', r"rows.jsonl, line 2: is not valid JSON"),
    ("rows.jsonl", b"[]\n", r"line 1: is list; a row must be an object of columns"),
    ("rows.jsonl", b'{"id": "\xff"}', r"line 1: is not UTF-8"),
    ("rows.jsonl", b'{"id": 1.5}', "the id is float"),
    ("rows.json", b'{"a": ', "rows.json: can't be read"),
    ("rows.json", b"3", "rows.json: contains int; a list of rows is needed"),
    ("rows.json", b'{"story": [], "a": {}}', "row 0, id 'story': is list; a row must be"),
    ("rows.json", b'{"a": 1}\n{"a": \n', "rows.json, line 2: is not valid JSON"),
    ("rows.json.gz", gzip.compress(b"[]", mtime=0)[:-9], "rows.json.gz: can't be read"),
    ("rows.parquet", b"PAR1", "rows.parquet: can't be read"),
    ("rows.csv", b"id,story\n1,A.\n", "the columns of the table are 'id', 'story'; it needs"),
    ("rows.csv", b"story_id,sentence,label\n1,\xff,3\n", "rows.csv: .*not CSV in UTF-8"),
]


def test_unreadable_files(tmp_path):
    for name, content, message in UNREADABLE:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RowError, match=message):
            list(read_records(str(tmp_path / name)))


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_compressed_rows_are_bounded(suffix, tmp_path, monkeypatch):
    """A few kilobytes that unpack to 20 MB."""
    monkeypatch.setattr(reading, "MAX_LINE", 10_000)
    monkeypatch.setattr(reading, "MAX_DOCUMENT", 20_000)
    start = b"story_id,sentence,label\n" if suffix == "csv" else b'"'
    path = tmp_path / f"rows.{suffix}.gz"
    path.write_bytes(gzip.compress(start + b" " * 20_000_000))
    with memory_below(10_000_000), pytest.raises(RowError, match="of more than [12]0,000 bytes"):
        list(read_records(str(path)))


def test_parquet_with_two_columns_of_a_name(tmp_path):
    table = pyarrow.table([["A."], ["A."]], names=["story", "story"])
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(RowError, match="has several columns 'story'; rename or remove all but"):
        list(read_records(str(tmp_path / "a.parquet")))


def test_rows_that_are_left_out_are_reported(cached, tmp_path, caplog):
    sizes = {"a": (3, 3), "b": (3, 2), "c": (1, 3)}
    windows = {id_: [["A."] * size for size in sizes[id_]] for id_ in sizes}
    rows = {id_: {"story": windows["a"], "twin": windows[id_]} for id_ in windows}
    path = write(tmp_path / "rows.json", rows)
    get = partial(cached(load_window_twins), path, "train")
    warning = (
        "train: 2 of 3 rows are left out, which have too few sentences in a window (min_window);"
        f" the first is {path}, row 1, id 'b': window 1 of 'twin' has 2 sentence(s), fewer than 3"
    )
    for streaming in (False, True):
        caplog.clear()
        assert [row["id"] for row in get(streaming=streaming, min_window=3)] == ["a"]
        ours = [each for each in caplog.records if each.name.startswith("narrative_twins")]
        assert [each.getMessage() for each in ours] == [warning]
    assert [row["id"] for row in get(min_window=2)] == ["a", "b"]
    with pytest.raises(ValueError, match="min_window=0: a window needs at least 1 sentence"):
        get(min_window=0)


def test_cache_is_used_until_files_change(cached, tmp_path, load):
    path = write(tmp_path / "rows.jsonl", [TWINS])
    get = partial(cached(load_story_twins), path, "train")
    (first,) = get().cache_files
    before = os.stat(first["filename"]).st_ino
    (found,) = get().cache_files
    assert os.stat(found["filename"]).st_ino == before
    info = get().info
    assert "narrative twins" in info.description and "Contrastive Learning" in info.citation
    assert len(load(load_story_twins, [TWINS, TWINS])) == 2
    assert load(load_story_twins, [{**TWINS, "id": "b"}])[0]["id"] == "b"


def test_columns_and_settings_do_not_share_a_cache(load, monkeypatch):
    """The same file is loaded by all functions, and after an update that adds columns."""
    row = {"story": ["A.", "B.", "C.", "D."], "twin": ["A."], "alignment": [[0, 0], [3, 0]]}
    row |= {"turning_points": [0, 1, 2, 3, 3], "choices": [1]}
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


TRIPOD = [
    ("Omar (Ann (junior)) buys\u00a0a mill , old .", "Omar buys a mill, old.", "Omar buys a mill , old ."),
    ("[2]", None, "[2]"),
    ('"They let [him] in!"[Note 3]', '"They let [him] in!"', '"They let [him] in!"[Note 3]'),
    (" ", None, None),
    ("(This is  a joke.)", None, "(This is a joke.)"),
    ("It burns,\nthe ﬁre) \u2014 all.", "It burns, the fire) \u2014 all.", "It burns, the fire \u2014 all."),
    ("A .45 lies there (why?).", "A .45 lies there.", "A .45 lies there ."),
    ("The end... (see below", "The end... (see below", "The end..."),
]  # fmt: skip
"""Invented sentences with the flaws of the real ones, cleaned, and cleaned by the released code,
which drops what has no text without a change of the turning points."""


def test_table_of_tripod(cached, tmp_path):
    raw, cleaned, released = ([text for text in each if text] for each in zip(*TRIPOD, strict=True))
    path = tmp_path / "synopses.csv"
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        table = csv.writer(file)
        table.writerow(["movie_name", "synopsis_segmented", *(f"tp{k}" for k in range(1, 6))])
        table.writerow(["The Mill_1", "[STR_SENT] A. [END_SENT]", 0, 0, 0, 0, 0])
        told = " ".join(f"[STR_SENT] {text} [END_SENT]" for text in raw)
        table.writerow(["The Mill_0", told, 0, 2, 5, 6, 6])
    load = cached(load_turning_points)
    (found,) = load(path, "train")
    spans = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    mill = {"id": "The Mill_0", "story": cleaned, "windows": spans}
    assert found == mill | {"turning_points": [0, 1, 2, 3, 3]}
    (judged,) = cached(load_story_salience)(path, "train")
    assert (judged["story"], judged["labels"]) == (cleaned, [1, 1, 1, 1, 0])
    (found,) = load(path, "train", cleaning="released")
    assert (found["story"], found["turning_points"]) == (released, [0, 2, 5, 6, 6])
    with pytest.raises(ValueError, match="cleaning='raw' is unknown; use full, released"):
        load(path, "train", cleaning="raw")
    rows = write(tmp_path / "rows.json", [{"story": ["A."] * 5, "turning_points": [0] * 5}])
    with pytest.raises(RowError, match="cleaning='released' is for TRIPOD's table"):
        load(rows, "train", cleaning="released")


def test_splits_are_selected():
    rows = Dataset.from_list([{"n": n} for n in range(5)])
    data = DatasetDict(train=rows, test=rows.select([4]))
    assert select_split(data, "train", 2)["n"] == [0, 1]
    assert select_split(data, "test", 9)["n"] == [4]
    assert select_split(DatasetDict(train=rows), "validation")["n"] == [*range(5)], "of a file"
    with pytest.raises(ValueError, match="no split 'validation', only train, test"):
        select_split(data, "validation")

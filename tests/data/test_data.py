"""Data sets: all supported columns and formats, errors in rows, sources, and the cache."""

from __future__ import annotations

import csv
import gzip
import json
import os
import pickle
import tempfile
from functools import partial
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from datasets import (
    Dataset,
    DatasetDict,
    Features,
    IterableDataset,
    IterableDatasetDict,
    disable_progress_bars,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import Story, StoryError
from narrative_twins.data import (
    PUBLISHED,
    RowError,
    StoryTwinsBuilder,
    WindowTwinsBuilder,
    check_twins_row,
    load_story_salience,
    load_story_twins,
    load_turning_points,
    load_window_twins,
)

from support.hub import Hub, running
from support.processes import run_python
from support.strategies import any_text, sentence

disable_progress_bars()

NO_VOTES = {"story_votes": None, "negative_votes": None}
TWINS = {
    "id": "a",
    "story": ["Nadia ran.", "It rained."],
    "twin": ["Nadia hurried off.", "Water fell."],
    "negative": ["Nadia sat.", "It rained."],
    "negative_twin": None,
}
SYNOPSIS = {
    "id": "s",
    "title": "The Mill",
    "story": [["Omar buys a mill.", "It is old."], ["It burns."]],
    "twin": ["A mill is bought by Omar.", "Soon it is in flames.", "The end."],
    "twin_windows": [[0], [0, 1], []],
    "negative": [["Omar buys a mill."], ["It thrives."]],
    "turning_points": [0, 2],
}


def write(path: Path, content) -> str:
    """Write a data file in the format of its name."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(content), path)
        return str(path)
    lines = (
        "\n".join(map(json.dumps, content))
        if name.endswith((".jsonl", ".ndjson"))
        else json.dumps(content)
    )
    path.write_bytes(gzip.compress(lines.encode()) if path.name.endswith(".gz") else lines.encode())
    return str(path)


@pytest.fixture
def load(tmp_path):
    """Load rows with a function of the package, from a temporary file and with a temporary
    cache."""

    def load(function, content, name: str = "rows.jsonl", **settings) -> list[dict]:
        path = write(tmp_path / name, content)
        return function(path, "train", cache_dir=str(tmp_path / "cache"), **settings).to_list()

    return load


# Columns


def test_story_twins_as_published(load):
    row = {
        "story": TWINS["story"],
        "narrative_twin": TWINS["twin"],
        "negative": TWINS["negative"],
        "negative_narrative_twin": ["She sat.", "Water fell.", "That was all."],
    }
    (found,) = load(load_story_twins, {"a": row}, "rows.json")
    assert found == TWINS | {"negative_twin": row["negative_narrative_twin"]} | NO_VOTES


def test_story_twins_without_negatives(load):
    (found,) = load(
        load_story_twins, [{"id": 7, "story": ["A."], "twin": ["B."], "theme": "mills"}]
    )
    assert (
        found
        == {"id": "7", "story": ["A."], "twin": ["B."], "negative": None, "negative_twin": None}
        | NO_VOTES
    )


@pytest.mark.parametrize(
    ("votes", "problem"),
    [
        (
            {"story_votes": [1]},
            r"'story_votes' has 1 number\(s\) for 2 sentence\(s\); give the number of votes",
        ),
        ({"story_votes": [0, 0]}, "'story_votes' has no vote"),
        ({"story_votes": [1, -1]}, "'story_votes' has -1; whole numbers from 0"),
        ({"negative_votes": [1]}, r"'negative_votes' has 1 number\(s\) for 0 sentence"),
    ],
)
def test_wrong_votes(votes, problem, load):
    with pytest.raises(RowError, match=problem):
        load(load_story_twins, [{"story": ["A.", "B."], "twin": ["C."]} | votes])


def test_votes_of_the_package_are_labels():
    rows = load_story_salience(split="validation")
    twins = load_story_twins(split="validation")
    assert (
        len(rows) == len(twins) == 199
        and rows["story"] == twins["story"]
        and rows["counts"] == twins["story_votes"]
    )
    assert rows[0]["labels"] == [count / sum(rows[0]["counts"]) for count in rows[0]["counts"]]


def test_rows_without_ids_are_named_by_file_and_number(load):
    row = {key: TWINS[key] for key in ("story", "twin")}
    assert [row["id"] for row in load(load_story_twins, [row, row])] == [
        "rows.jsonl:0",
        "rows.jsonl:1",
    ]


PUBLISHED_SYNOPSIS = {
    "title": "The Mill",
    "english_narrative": ["Omar buys a mill.", "It is old.", "It burns.", "He weeps."],
    "translated_narrative_twin": ["A mill is bought by Omar.", "Soon it is in flames.", "The end."],
    "alignment": [[0, 0], [1, 1], [2, 1], [1, 0]],
    "negative_narrative": {"section_2": ["It thrives."], "section_1": ["Omar buys a mill."]},
}


def test_window_twins_as_published(load):
    (found,) = load(
        load_window_twins, {"s": PUBLISHED_SYNOPSIS}, "rows.json", windows=2, min_window=1
    )
    assert found == SYNOPSIS | {
        "story": [["Omar buys a mill.", "It is old."], ["It burns.", "He weeps."]]
    } | {"turning_points": None}


@pytest.mark.parametrize("windows", [1, 2])
def test_stories_without_windows_are_split_evenly(load, windows):
    row = {key: value for key, value in PUBLISHED_SYNOPSIS.items() if key != "negative_narrative"}
    (found,) = load(load_window_twins, {"s": row}, "rows.json", windows=windows, min_window=1)
    assert len(found["story"]) == windows
    assert found["negative"] is None


def test_window_twins_in_plain_windows(load):
    row = {
        "id": "s",
        "title": "The Mill",
        "story": SYNOPSIS["story"],
        "twin": [["A mill is bought by Omar.", "Soon it is in flames."], ["The end."]],
        "negative": SYNOPSIS["negative"],
        "key": [1, 0],
    }
    (found,) = load(load_window_twins, [row])
    assert found == SYNOPSIS | {"twin_windows": [[0], [0], [1]], "turning_points": [1, 2]}


@pytest.mark.parametrize(
    "names", [("storytitle", "story", "most_important"), ("title", "sentences", "choices")]
)
def test_story_salience(load, names):
    values = ("Rain", ["Nadia ran.", "It rained.", "She fell."], ["3", 1, "3"])
    (found,) = load(load_story_salience, {"r": dict(zip(names, values, strict=True))}, "rows.json")
    assert found == {
        "id": "r",
        "title": "Rain",
        "story": values[1],
        "windows": None,
        "labels": [1 / 3, 0, 2 / 3],
        "annotations": [[0, 0, 1], [1, 0, 0], [0, 0, 1]],
        "choices": [3, 1, 3],
        "counts": [1, 0, 2],
        "summaries": None,
    }


@pytest.mark.parametrize("summaries", [{"summaries": ["Nadia fell."]}, {"summary": "Nadia fell."}])
def test_story_salience_by_summaries(load, summaries):
    (found,) = load(
        load_story_salience, {"r": {"story": ["Nadia ran.", "She fell."]} | summaries}, "rows.json"
    )
    assert found["summaries"] == ["Nadia fell."]
    assert {
        found[column] for column in ("labels", "annotations", "choices", "counts", "title")
    } == {None}


def test_turning_points_without_empty_sentences(load):
    sentences = ["A.", " ", "B.", "C.", "", "D.", "E.", "F."]
    row = {"sentences": sentences, "turning_points": [0, 2, 3, 5, 7]}
    (found,) = load(load_turning_points, {"The Mill": row}, "rows.json", windows=2)
    assert found == {
        "id": "The Mill",
        "story": ["A.", "B.", "C.", "D.", "E.", "F."],
        "windows": [[0, 3], [3, 6]],
        "turning_points": [0, 1, 2, 3, 5],
    }


def tripod_table(path: Path, *rows: tuple) -> str:
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(
            ["movie_name", "synopsis_raw", "synopsis_segmented", "tp1", "tp2", "tp3", "tp4", "tp5"]
        )
        for name, sentences, *points in rows:
            table.writerow(
                [name, "", " ".join(f"[STR_SENT] {s} [END_SENT]" for s in sentences), *points]
            )
    return str(path)


def test_tripod_table(tmp_path):
    """Invented sentences with the flaws of the real ones."""
    sentences = [
        "Omar (Ann Lee (junior)) buys\u00a0a mill , which is  old .",
        "[2]",
        'He says: "They let [him] in!"[Note 3]',
        "It burns,\nthe ﬁre \u2014 all of it.",
        "A .45 lies there (why?).",
        "The end...",
    ]
    rows = [("The Mill_1", ["A."], 0, 0, 0, 0, 0), ("The Mill_0", sentences, 0, 2, 3, 4, 5)]
    path = tripod_table(tmp_path / "synopses.csv", *rows)
    (found,) = load_turning_points(path, "train", cache_dir=str(tmp_path / "cache"))
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


def test_table_that_is_not_tripod(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,story\n1,A.\n")
    with pytest.raises(RowError, match="table.csv, row 0: no column 'synopsis_segmented'"):
        load_turning_points(path, cache_dir=str(tmp_path / "cache"))


# Rows with short windows


def synopsis(sizes, twin_sizes) -> dict:
    """A row as published, whose windows of story and twin have these sizes; the story must have
    even windows."""
    windows_of = [w for w, size in enumerate(sizes) for _ in range(size)]
    twin_windows = [w for w, size in enumerate(twin_sizes) for _ in range(size)]
    return {
        "english_narrative": [f"Sentence {i}." for i in range(sum(sizes))],
        "translated_narrative_twin": [f"Line {j}." for j in range(sum(twin_sizes))],
        # A sentence of the twin is aligned to the first sentence of its window.
        "alignment": [[windows_of.index(w), j] for j, w in enumerate(twin_windows)],
    }


@settings(max_examples=25)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(1, 5), st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any)
        ),
        min_size=1,
        max_size=6,
    ),
    min_window=st.sampled_from([None, 1, 2, 4]),
    streaming=st.booleans(),
)
def test_rows_with_short_windows_are_left_out(rows, min_window, streaming):
    """Of published rows; the others are loaded, in order, whether from the cache or not."""
    least = min_window or 3
    kept = [f"r{n}" for n, (size, twin) in enumerate(rows) if min(size, *twin) >= least]
    with tempfile.TemporaryDirectory() as folder:
        content = {f"r{n}": synopsis([size] * 3, twin) for n, (size, twin) in enumerate(rows)}
        path = write(Path(folder) / "rows.json", content)
        get = partial(
            load_window_twins, path, "train", windows=3, min_window=min_window, cache_dir=folder
        )
        for _ in range(2):
            found = get(streaming=streaming)
            assert [row["id"] for row in found] == kept
            left_out = found.info.description.removeprefix(WindowTwinsBuilder.ABOUT).strip()
            if len(kept) < len(rows) and not streaming:
                assert left_out.startswith(
                    f"train: {len(rows) - len(kept)} of {len(rows)} rows are left out"
                )
            else:
                assert left_out == ""


def warnings_of(caplog) -> list[str]:
    found = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("narrative_twins")
    ]
    caplog.clear()
    return found


def test_each_load_warns_of_rows_that_are_left_out(tmp_path, caplog):
    rows = {"a": synopsis([3, 3], [3, 3]), "b": synopsis([3, 3], [3, 2]), "c": synopsis([1], [3])}
    path = write(tmp_path / "rows.json", rows)
    get = partial(load_window_twins, path, windows=2, cache_dir=str(tmp_path / "cache"))
    warning = (
        "train: 2 of 3 rows are left out, which have too few sentences in a window (min_window);"
        f" the first is {path}, row 1, id 'b': window 1 of 'twin' has 2 sentence(s), fewer than 3"
    )
    for _ in range(2):
        assert get("train")["id"][:] == ["a"]
        assert warnings_of(caplog) == [warning]
    assert get("train[:1]")["id"][:] == ["a"]
    assert warnings_of(caplog) == [warning]
    rows_of_stream = get("train", streaming=True)
    assert warnings_of(caplog) == []
    assert len(list(rows_of_stream)) == 1
    assert warnings_of(caplog) == [warning]
    assert len(get("train", min_window=1)) == 2
    (message,) = warnings_of(caplog)
    assert (
        "1 of 3 rows" in message and "'story' has 1 sentence(s), too few for 2 windows" in message
    )


def test_plain_rows_with_short_windows_are_loaded_unless_asked(load, caplog):
    plain = [{"story": [["A."], ["B."]], "twin": [["C."], ["D.", "E."]]}, {**SYNOPSIS, "id": "t"}]
    assert len(load(load_window_twins, plain)) == 2
    assert warnings_of(caplog) == []
    assert [row["id"] for row in load(load_window_twins, plain, min_window=1)] == [
        "rows.jsonl:0",
        "t",
    ]
    assert load(load_window_twins, plain, min_window=2) == []
    assert "2 of 2 rows are left out" in warnings_of(caplog)[0]
    aligned = PUBLISHED_SYNOPSIS | {"twin_windows": [[0], [1], [1]]}
    assert len(load(load_window_twins, [aligned], windows=2)) == 1
    empty = SYNOPSIS | {"twin_windows": [[0], [0], []]}
    with pytest.raises(RowError, match="no sentence of 'twin' is in window 1"):
        load(load_window_twins, [empty])
    assert load(load_window_twins, [empty], min_window=1) == []


def test_invalid_rows_with_short_windows_are_errors(load):
    with pytest.raises(RowError, match="'turning_points' has 9"):
        load(
            load_window_twins,
            {"s": synopsis([2, 2], [2, 2]) | {"turning_points": [9]}},
            "rows.json",
            windows=2,
        )
    with pytest.raises(RowError, match="of the twin' has 7"):
        load(
            load_window_twins,
            {"s": synopsis([2, 2], [2, 2]) | {"alignment": [[0, 7]]}},
            "rows.json",
            windows=2,
        )


def test_split_of_which_all_rows_are_left_out_is_empty(tmp_path):
    files = {
        "train": write(tmp_path / "train.json", {"a": synopsis([3, 3], [3, 3])}),
        "validation": write(tmp_path / "val.json", {"b": synopsis([2, 2], [3, 3])}),
    }
    get = partial(load_window_twins, files, windows=2, cache_dir=str(tmp_path / "cache"))
    assert {name: len(rows) for name, rows in get().items()} == {"train": 1, "validation": 0}
    empty = get("validation")
    assert (len(empty), empty.column_names) == (0, list(WindowTwinsBuilder.FEATURES))
    assert empty.info.description.startswith(
        f"{WindowTwinsBuilder.ABOUT}\n\nvalidation: 1 of 1 rows are left out"
    )


@pytest.mark.parametrize("least", [0, -1])
def test_least_sentences_of_a_window_must_be_positive(least):
    with pytest.raises(ValueError, match=f"min_window={least}: a window needs at least 1 sentence"):
        load_window_twins(min_window=least)


# Formats

FORMATS = ["rows.jsonl", "rows.ndjson.gz", "rows.json", "rows.json.gz", "rows.parquet"]


def is_sentence(text: str) -> bool:
    try:
        return bool(Story.parse([text]))
    except StoryError:
        return False


sentences = st.lists(sentence | any_text.filter(is_sentence), min_size=1, max_size=4)


@st.composite
def story_rows(draw) -> dict:
    row = {
        "story": draw(sentences),
        "twin": draw(sentences),
        "negative": draw(st.none() | sentences),
    }
    row["negative_twin"] = draw(st.none() | sentences)
    for column in ("story", "negative"):
        count = len(row[column] or ())
        votes = st.lists(st.integers(0, 9), min_size=count, max_size=count).filter(any)
        row[f"{column}_votes"] = draw(st.none() | votes) if count else None
    return row


@st.composite
def window_rows(draw) -> dict:
    story = draw(st.lists(sentences, min_size=1, max_size=3))
    candidates = st.lists(st.integers(0, len(story) - 1), max_size=2, unique=True)
    windows = [*([w] for w in range(len(story))), *draw(st.lists(candidates, max_size=3))]
    size = st.just(len(story))
    last = sum(map(len, story)) - 1
    return {
        "title": draw(st.none() | any_text),
        "story": story,
        "twin": draw(st.lists(sentence, min_size=len(windows), max_size=len(windows))),
        "twin_windows": windows,
        "negative": draw(
            st.none() | size.flatmap(lambda n: st.lists(sentences, min_size=n, max_size=n))
        ),
        "turning_points": draw(st.none() | st.lists(st.integers(0, last), max_size=5)),
    }


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("builder", "function", "drawn"),
    [
        (StoryTwinsBuilder, load_story_twins, story_rows()),
        (WindowTwinsBuilder, load_window_twins, window_rows()),
    ],
    ids=["story", "window"],
)
@settings(max_examples=10)
@given(data=st.data())
def test_rows_are_unchanged_by_every_format(name, builder, function, drawn, data):
    """Prepared and streamed; the Parquet files are those that the data set itself exports."""
    rows = [
        {"id": f"row {i}", **row}
        for i, row in enumerate(data.draw(st.lists(drawn, min_size=1, max_size=4)))
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if name.endswith(".parquet"):
            Dataset.from_list(rows, features=builder.FEATURES).to_parquet(str(path))
        else:
            write(path, rows)
        cache = f"{folder}/cache"
        assert function(str(path), "train", cache_dir=cache).to_list() == rows
        assert list(function(str(path), "train", cache_dir=cache, streaming=True)) == rows


@settings(max_examples=20)
@given(rows=st.lists(story_rows(), min_size=1, max_size=4), data=st.data())
def test_errors_name_the_row(rows, data):
    bad = data.draw(st.integers(0, len(rows) - 1))
    texts = [
        column for column, content in rows[bad].items() if content and not column.endswith("votes")
    ]
    column = data.draw(st.sampled_from(texts))
    index = data.draw(st.integers(0, len(rows[bad][column]) - 1))
    rows[bad][column][index] = data.draw(st.sampled_from(["", " \n", None, 3]))
    with tempfile.TemporaryDirectory() as folder:
        path = write(
            Path(folder) / "rows.jsonl", [{"id": f"name {i}", **row} for i, row in enumerate(rows)]
        )
        for streaming in (False, True):
            with pytest.raises(RowError) as raised:
                list(load_story_twins(path, "train", cache_dir=folder, streaming=streaming))
            start = (
                f"{path}, row {bad} (line {bad + 1}), id 'name {bad}': '{column}': sentence"
                f" {index} is "
            )
            assert str(raised.value).startswith(start)


# Invalid rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"twin": None},
            (
                r"no column 'twin' \(or 'narrative_twin'\); the columns with content: 'id',"
                r" 'story', 'negative'$"
            ),
        ),
        ({"story": []}, "'story' is empty; give it at least one sentence"),
        ({"story": "Nadia ran. It rained."}, "'story' is one text; split it into sentences"),
        ({"story": {"A.": 1}}, "'story' is dict; a list of sentences is needed"),
        ({"twin": [["Nadia ran."]]}, "'twin' is a list of lists; a list of sentences is needed"),
        ({"twin": ["Nadia ran.", ["It rained."]]}, "'twin': sentence 1 is list, not text"),
        ({"negative": ["A.", " "]}, "'negative': sentence 1 is empty or white space"),
        ({"negative_twin": [None]}, "'negative_twin': sentence 0 is NoneType"),
        ({"story": ["\ud800."]}, "lone surrogate"),
        ({"id": 1.5}, "the id is float"),
    ],
)
def test_invalid_story_twins(load, change, message):
    with pytest.raises(RowError, match=message):
        load(load_story_twins, [TWINS | change])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"negative_narrative": {"section_1": ["A."]}},
            r"'negative' has 1 window\(s\) and 'story' 2",
        ),
        (
            {"negative_narrative": {"section_1": ["A."], "section_3": ["B."]}},
            "sections 'section_1', 'section_3'",
        ),
        (
            {"alignment": [[0, 0], [4, 1]]},
            r"'alignment\[1\] = \[4, 1\], of the story' has 4; .* from 0 to 3",
        ),
        (
            {"alignment": [[0, 3]]},
            r"'alignment\[0\] = \[0, 3\], of the twin' has 3; .* from 0 to 2",
        ),
        ({"alignment": [[0, -1]]}, "of the twin' has -1"),
        ({"alignment": [[0, True]]}, "of the twin' has True"),
        ({"alignment": [[0, 1, 2]]}, "is not a pair"),
        ({"alignment": [3]}, r"'alignment\[0\] = 3' is int; a list of two sentences"),
        ({"twin_windows": [[0], [0], []]}, "no sentence of 'twin' is in window 1 of the story"),
        ({"alignment": None}, r"no column 'alignment' \(or 'twin_windows'\)"),
        (
            {"english_narrative": ["A."], "twin_windows": [[0]] * 3},
            r"'story': windows=2 for 1 sentence\(s\)",
        ),
        ({"english_narrative": [["A."], []]}, r"'story\[1\]' is empty"),
        ({"twin": [["A."]]}, r"'twin' has 1 window\(s\) and 'story' 2"),
        ({"twin": [["A."], ["B."]], "twin_windows": [[0], [1]]}, "remove 'twin_windows'"),
        ({"key": [0]}, r"'key' has 1 index\(es\); one for each of the 2 windows"),
        ({"key": [0, 2]}, r"'key\[1\]' has 2; whole numbers from 0 to 1"),
        ({"turning_points": [4]}, "'turning_points' has 4; whole numbers from 0 to 3"),
    ],
)
def test_invalid_window_twins(load, change, message):
    with pytest.raises(RowError, match=message):
        load(load_window_twins, {"s": PUBLISHED_SYNOPSIS | change}, "rows.json", windows=2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"most_important": [3]}, "'choices' has 3; whole numbers from 1 to 2"),
        ({"most_important": ["0"]}, "'choices' has 0"),
        ({"most_important": ["first"]}, "'choices' has 'first'"),
        ({"most_important": "12"}, "'choices' is str; a list of whole numbers"),
        ({}, "no column 'choices' .*'most_important'"),
        ({"summary": ""}, "'summaries': sentence 0 is empty"),
    ],
)
def test_invalid_story_salience(load, row, message):
    with pytest.raises(RowError, match=message):
        load(load_story_salience, {"r": {"story": ["A.", "B."]} | row}, "rows.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turning_points": [0, 1, 2, 3, 6]}, "'turning_points' has 6; whole numbers from 0 to 5"),
        ({"turning_points": [0, 1, 2, 3]}, "4 turning points; five are needed"),
        ({"turning_points": [0, 1, 2, 3, 4]}, "turning point 5 is sentence 4, which is empty"),
        ({"sentences": "A."}, "'story' is str; a list of sentences is needed"),
        (
            {"sentences": ["A.", "B.", "C."], "turning_points": [0, 0, 1, 1, 2]},
            r"windows=5 for 3 sentence\(s\)",
        ),
    ],
)
def test_invalid_turning_points(load, change, message):
    row = {"sentences": ["A.", "B.", "C.", "D.", "", "F."], "turning_points": [0, 1, 2, 3, 5]}
    with pytest.raises(RowError, match=message):
        load(load_turning_points, {"The Mill": row | change}, "rows.json")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", b'\n{"story": ["A."]\n', r"rows.jsonl, row 0 \(line 2\): is not valid JSON"),
        ("rows.jsonl", b"[]\n", r"row 0 \(line 1\): is list; a row must be an object of columns"),
        ("rows.jsonl", b'{"id": "\xff"}', r"row 0 \(line 1\): is not valid JSON"),
        ("rows.json", b'{"a": ', "rows.json: can't be read as json"),
        ("rows.json", b"3", "rows.json: contains int; a list of rows is needed"),
        ("rows.json", b'{"story": []}', "rows.json, row 0, id 'story': is list; a row must be"),
        ("rows.json.gz", gzip.compress(b"[]", mtime=0)[:-9], "rows.json.gz: can't be read as json"),
        ("rows.json.gz", b"[]", "rows.json.gz: can't be read as json"),
        ("rows.parquet", b"PAR1", "rows.parquet: can't be read as parquet"),
    ],
)
def test_unreadable_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RowError, match=message):
        load_story_twins(tmp_path / name, cache_dir=str(tmp_path / "cache"))


A, B, C = ["A.", "Aa."], ["B."], ["C."]


@pytest.mark.parametrize(
    "row",
    [
        {"story": A},
        {"story": A, "twin": B, "negative": None, "something": 3},
        {"story": [A, B], "twin": [A, C], "negative": [C, C], "negative_twin": [B, A]},
        {"story": [A, B], "twin": [*A, *B], "twin_windows": [[0], [0, 1], []]},
        {"story": A, "story_windows": [[0], [1]], "twin": [A, B]},
        {"story": (tuple(A), tuple(B)), "twin": (tuple(B), tuple(C))},
        {"story": A, "twin": [B]},
        SYNOPSIS,
        TWINS,
    ],
)
def test_rows_that_can_be_used_for_training(row):
    check_twins_row(row, "row 3")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"twin": A}, "no column 'story'; the columns with content: 'twin'"),
        ({}, "no column 'story'; the columns with content: none"),
        ({"story": [A, B], "twin": [A]}, r"'twin' has 1 window\(s\) and 'story' 2"),
        ({"story": [A, B], "twin": A}, r"'twin' has 1 window\(s\) and 'story' 2"),
        ({"story": A, "negative_twin": [A, B]}, r"'negative_twin' has 2 window\(s\) and 'story' 1"),
        (
            {"story": [A, B], "twin": A, "twin_windows": [[0]]},
            r"'twin_windows' has 1 list\(s\) of windows for 2",
        ),
        (
            {"story": [A, B], "twin": A, "twin_windows": [[0], [2]]},
            r"'twin_windows\[1\]' has 2; .* from 0 to 1",
        ),
        (
            {"story": [A, B], "twin": A, "twin_windows": [[0], [0]]},
            "no sentence of 'twin' is in window 1",
        ),
        (
            {"story": [A, B], "twin": A, "twin_windows": [0, 1]},
            r"'twin_windows\[0\]' is int; a list of whole numbers",
        ),
        (
            {"story": [A, B], "twin": [A, B], "twin_windows": [[0], [0], [1]]},
            "remove 'twin_windows'",
        ),
        ({"story": A, "story_windows": [[1], [1]]}, "no sentence of 'story' is in window 0"),
        ({"story": A, "story_windows": [[0], [10**9]]}, "whole numbers from 0 to 1"),
        ({"story": [A, [A]]}, r"'story\[1\]' is a list of lists"),
        ({"story": [A, [""]]}, r"'story\[1\]': sentence 0 is empty"),
    ],
)
def test_rows_that_cannot_be_used_for_training(row, message):
    with pytest.raises(RowError, match=f"^row 3: .*{message}"):
        check_twins_row(row, "row 3")


def test_errors_can_be_pickled():
    error = pickle.loads(pickle.dumps(RowError("row 3", "'story' is empty")))
    assert (str(error), error.where) == ("row 3: 'story' is empty", "row 3")


# Sources


def test_types_of_data_sets(tmp_path):
    path = write(tmp_path / "rows.jsonl", [TWINS])
    get = partial(load_story_twins, path, cache_dir=str(tmp_path / "cache"))
    assert type(get()) is DatasetDict
    assert type(get("train")) is Dataset
    assert get("train[:1]").num_rows == 1
    assert type(get(streaming=True)) is IterableDatasetDict
    assert type(get("train", streaming=True)) is IterableDataset
    assert get().column_names["train"] == list(StoryTwinsBuilder.FEATURES)
    with pytest.raises(ValueError, match="test"):
        get("test")


def test_splits_of_lists_mappings_and_folders(tmp_path):
    names = [
        "train-00000-of-00002.jsonl",
        "train-00001-of-00002.jsonl",
        "dev.json",
        "deep/test.parquet",
        "notes.json",
    ]
    (tmp_path / "data" / "deep").mkdir(parents=True)
    paths = [
        write(tmp_path / "data" / name, [TWINS | {"id": name, "negative_twin": ["A."]}])
        for name in names
    ]
    get = partial(load_story_twins, cache_dir=str(tmp_path / "cache"))
    assert {split: rows["id"][:] for split, rows in get(str(tmp_path / "data")).items()} == {
        "train": names[:2],
        "validation": names[2:3],
        "test": names[3:4],
    }
    assert get(paths)["train"]["id"][:] == names
    assert {
        split: len(rows) for split, rows in get({"mine": paths[:2], "other": paths[2]}).items()
    } == {"mine": 2, "other": 1}


def test_folder_without_splits_in_file_names(tmp_path):
    write(tmp_path / "rows.jsonl", [TWINS])
    (tmp_path / "README.md").write_text("Rows.")
    assert set(load_story_twins(tmp_path, cache_dir=str(tmp_path / "cache"))) == {"train"}


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("rows.jsonl", FileNotFoundError, "'rows.jsonl' is not a local path, and not a Hub id"),
        (
            "data/rows.jsonl",
            FileNotFoundError,
            "'data/rows.jsonl' is not a local path, and not a Hub id",
        ),
        ("https://example.com/rows", FileNotFoundError, "not a Hub id"),
        (
            "somebody/rows",
            FileNotFoundError,
            "'somebody/rows' is not a local path, and can't be found on the Hub",
        ),
        (["rows.jsonl"], FileNotFoundError, "rows.jsonl is not a file"),
        ({"train": []}, ValueError, "no files; give at least one"),
        ([__file__], ValueError, r"test_data.py has an unknown format; .* \*.jsonl"),
        (__file__, ValueError, "has an unknown format"),
        (".", FileNotFoundError, "no data files in"),
    ],
)
def test_missing_sources(tmp_path, monkeypatch, source, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        load_story_twins(source, cache_dir=str(tmp_path))


def test_revision_of_local_data_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="revision='v1' applies only to data on the Hub"):
        load_story_twins(write(tmp_path / "rows.jsonl", [TWINS]), revision="v1")


def test_error_without_a_source_names_where_to_get_the_data():
    with pytest.raises(ValueError, match="TRIPOD"):
        load_turning_points()


def test_ids_of_published_data():
    assert all(name.startswith("igorsterner/") for name in PUBLISHED)


HUB = """
import json, sys
from narrative_twins.data import PUBLISHED, load_story_twins

PUBLISHED["somebody/pinned"] = "v1"
for name, options in json.loads(sys.argv[1]):
    try:
        rows = load_story_twins(name, **options)
        print(json.dumps({split: [row["id"] for row in rows[split]] for split in rows}))
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""


def test_data_from_the_hub_and_then_offline(tmp_path):
    """With the real client, a pinned revision and the user's token; after the first load no network
    is needed."""
    folder = tmp_path / "repository"
    folder.mkdir()
    write(folder / "train.json", {"t": {"story": ["A."], "narrative_twin": ["B."]}})
    write(folder / "val.jsonl", [TWINS])
    (folder / "README.md").write_text("Rows.")
    home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}

    def run(*calls: tuple[str, dict], **environment: str) -> list[str]:
        environment = os.environ | home | environment
        return run_python("-c", HUB, json.dumps(calls), env=environment, cwd=tmp_path).splitlines()

    hub = Hub("secret")
    hub.put("datasets", "somebody/pinned", folder, branch="v1")
    with running(hub):
        token = {"token": "secret"}
        refused, other, unknown, loaded = run(
            ("somebody/pinned", {"token": "wrong"}),
            ("somebody/pinned", {"revision": "v2"} | token),
            ("somebody/other", token),
            ("somebody/pinned", {"streaming": True} | token),
            HF_ENDPOINT=hub.address,
            HF_HUB_OFFLINE="0",
        )
    assert refused.startswith("GatedRepoError")
    assert other.startswith("RevisionNotFoundError")
    assert unknown.startswith(
        "FileNotFoundError 'somebody/other' is not a local path, and can't be found on the Hub"
    )
    assert json.loads(loaded) == {"train": ["t"], "validation": ["a"]}
    assert set(hub.given) == {"README.md", "train.json", "val.jsonl"}
    assert run(("somebody/pinned", {}), HF_HUB_OFFLINE="1") == [loaded]


# The cache


def test_changed_files_are_read_again(load):
    assert len(load(load_story_twins, [TWINS])) == 1
    assert len(load(load_story_twins, [TWINS, TWINS])) == 2
    assert load(load_story_twins, [TWINS | {"id": "b"}])[0]["id"] == "b"


def test_unchanged_files_are_not_prepared_again(tmp_path):
    path = write(tmp_path / "rows.jsonl", [TWINS])
    get = partial(load_story_twins, path, "train", cache_dir=str(tmp_path / "cache"))
    (first,), (second,) = get().cache_files, get().cache_files
    assert first == second
    changed = os.stat(first["filename"]).st_mtime_ns
    get()
    assert os.stat(first["filename"]).st_mtime_ns == changed


def test_other_columns_are_not_taken_from_the_cache(load, monkeypatch):
    """As after an update of the package, which adds columns."""
    columns = list(StoryTwinsBuilder.FEATURES)
    with monkeypatch.context() as before:
        before.setattr(
            StoryTwinsBuilder, "FEATURES", Features(reversed(StoryTwinsBuilder.FEATURES.items()))
        )
        assert list(load(load_story_twins, [TWINS])[0]) == columns[::-1]
    assert list(load(load_story_twins, [TWINS])[0]) == columns


def test_builders_and_settings_do_not_share_a_cache(load):
    """The same file is loaded by all functions."""
    row = PUBLISHED_SYNOPSIS | {
        "story": PUBLISHED_SYNOPSIS["english_narrative"],
        "twin": ["A."],
        "turning_points": [0, 1, 2, 3, 3],
        "choices": [1],
        "alignment": [[0, 0], [3, 0]],
    }
    del row["negative_narrative"]
    assert len(load(load_window_twins, [row], windows=1, min_window=1)[0]["story"]) == 1
    assert len(load(load_window_twins, [row], windows=2, min_window=1)[0]["story"]) == 2
    assert load(load_window_twins, [row], windows=2, min_window=2) == []
    assert len(load(load_turning_points, [row], windows=2)[0]["windows"]) == 2
    assert "counts" in load(load_story_salience, [row])[0]
    assert "negative_twin" in load(load_story_twins, [row])[0]

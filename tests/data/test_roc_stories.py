"""ROCStories: tables as stories, and training stories without those that have labels."""

from __future__ import annotations

import csv
import gzip
import json
import tempfile
from functools import partial
from pathlib import Path

import pytest
from datasets import disable_progress_bars
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import SalienceEvaluator
from narrative_twins.commands.cli import main
from narrative_twins.data import RocStoriesBuilder, RowError, load_roc_stories, load_story_salience
from narrative_twins.training.trainable import checked_rows

from support.models import trainable

disable_progress_bars()

HEADER = ["storyid", "storytitle", "sentence1", "sentence2", "sentence3", "sentence4", "sentence5"]
NAMES = [
    "ROCStories_winter2017 - ROCStories_winter2017.csv",
    "ROCStories__spring2016 - ROCStories_spring2016.csv",
]


def sentences(number: int) -> list[str]:
    return [
        f"Omar had {number} mills.",
        "It rained.",
        'He said, "So what?"',
        "They burned.",
        f"He wept {number} days.",
    ]


def table(path: Path, rows: list[list[str]], header: list[str] = HEADER) -> str:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def roc(path: Path, *numbers: int) -> str:
    return table(path, [[f"id-{n}", f"Mill {n}", *sentences(n)] for n in numbers])


def salience(path: Path, rows: dict[str, list[str]]) -> str:
    """Labels in the shape of the paper's files."""
    labelled = {
        name: {"storytitle": "Mill", "story": story, "most_important": ["5", "4"]}
        for name, story in rows.items()
    }
    path.write_text(json.dumps(labelled))
    return str(path)


@pytest.fixture
def load(tmp_path):
    return partial(load_roc_stories, cache_dir=str(tmp_path / "cache"))


def warnings_of(caplog) -> list[str]:
    found = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("narrative_twins")
    ]
    caplog.clear()
    return found


def test_tables_are_read(load, tmp_path, caplog):
    rows = [["a", "Rain", " Nadia  ran. ", "It rained,\nthen", "Ünter.", "D.", "E."]]
    (folder := tmp_path / "roc").mkdir()
    files = [table(folder / NAMES[0], rows), roc(folder / NAMES[1], 1, 2)]
    # Spreadsheets write a byte order mark.
    Path(files[0]).write_bytes(b"\xef\xbb\xbf" + Path(files[0]).read_bytes())
    found = load(files)["train"]
    assert found.features == RocStoriesBuilder.FEATURES
    assert found["id"][:] == ["a", "id-1", "id-2"]
    labels = dict.fromkeys(("windows", "labels", "annotations", "choices", "counts", "summaries"))
    story = ["Nadia ran.", "It rained, then", "Ünter.", "D.", "E."]
    assert found[0] == {"id": "a", "title": "Rain", "story": story, **labels}
    assert found[1]["story"] == sentences(1)
    assert warnings_of(caplog) == [] and found.info.description == RocStoriesBuilder.ABOUT
    assert sorted(load(folder, "train")["id"][:]) == ["a", "id-1", "id-2"]
    packed = tmp_path / "roc.csv.gz"
    packed.write_bytes(gzip.compress(Path(files[1]).read_bytes()))
    assert load(packed, "train")["id"][:] == ["id-1", "id-2"]


def test_the_split_of_the_paper(load, tmp_path, caplog):
    """Stories with labels are found by id, and by text if they have another id; they are the other
    splits."""
    files = [roc(tmp_path / NAMES[0], *range(8)), roc(tmp_path / NAMES[1], 1, *range(8, 12))]
    other_case = [sentence.upper().replace(" ", "  ") for sentence in sentences(5)]
    val = salience(tmp_path / "val.json", {"id-3": sentences(3), "other": other_case})
    test = salience(
        tmp_path / "test.json",
        {"id-9": ["Another text.", "B.", "C.", "D.", "E."], "absent": ["A."] * 5},
    )
    counts = (
        "train: 4 of 13 stories are left out: 2 have the id and 1 only the text of a story with"
        " labels, 1 a repeated id; of 4 stories with labels 1 are not in the files"
    )
    for exclude in ([val, test], {"validation": val, "test": [test]}):
        for _ in range(2):
            found = load(files, exclude=exclude)
            assert list(found) == ["train", "validation", "test"]
            assert found["train"]["id"][:] == [f"id-{n}" for n in (0, 1, 2, 4, 6, 7, 8, 10, 11)]
            assert warnings_of(caplog) == [counts], "also from the cache"
            assert found["train"].info.description == f"{RocStoriesBuilder.ABOUT}\n\n{counts}"
        expected = load_story_salience(
            {"validation": val, "test": test}, cache_dir=str(tmp_path / "cache")
        )
        assert {name: expected[name].to_list() for name in expected} == {
            name: found[name].to_list() for name in ("validation", "test")
        }
    stream = load(files, "train", exclude=[val, test], streaming=True)
    assert [row["id"] for row in stream] == found["train"]["id"][:]
    assert warnings_of(caplog) == [counts]


def test_splits_of_stories_with_labels(load, tmp_path):
    (folder := tmp_path / "labels").mkdir()
    for name, number in (("val.json", 1), ("test.json", 2)):
        salience(folder / name, {f"id-{number}": sentences(number)})
    stories = roc(tmp_path / "roc.csv", 1, 2, 3)
    assert {name: rows["id"][:] for name, rows in load(stories, exclude=folder).items()} == {
        "train": ["id-3"],
        "validation": ["id-1"],
        "test": ["id-2"],
    }
    other = salience(tmp_path / "judged.json", {"id-3": sentences(3)})
    assert {name: rows["id"][:] for name, rows in load(stories, exclude=other).items()} == {
        "train": ["id-1", "id-2"],
        "labelled": ["id-3"],
    }
    found = load(stories, exclude={"train": other, "validation": folder / "val.json"})
    assert list(found) == ["train", "labelled", "validation"] and found["train"]["id"][:] == [
        "id-2"
    ]


numbers = st.lists(st.integers(0, 9), max_size=8)


@settings(max_examples=25)
@given(
    first=numbers,
    second=numbers,
    by_id=st.sets(st.integers(0, 9)),
    by_text=st.sets(st.integers(0, 9)),
)
def test_no_story_with_labels_is_in_the_training_set(first, second, by_id, by_text):
    """And all others are, once each, in the order of the files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [roc(folder / "a.csv", *first), roc(folder / "b.csv", *second)]
        labelled = {f"id-{n}": ["Corrected.", *sentences(n)[1:]] for n in by_id}
        labelled |= {f"other-{n}": sentences(n) for n in by_text}
        exclude = salience(folder / "labels.json", labelled)
        found = load_roc_stories(files, "train", exclude=exclude, cache_dir=f"{folder}/cache")
        expected = [f"id-{n}" for n in dict.fromkeys([*first, *second]) if n not in by_id | by_text]
        assert [row["id"] for row in found] == expected
        total = len(first) + len(second)
        report = f"train: {total - len(expected)} of {total} stories are left out"
        assert (report in found.info.description) == bool(labelled or len(expected) < total)


def test_training_stories_can_be_trained_and_evaluated_on(load, tmp_path):
    stories = load(
        roc(tmp_path / "roc.csv", *range(4)),
        exclude=[salience(tmp_path / "val.json", {"id-1": sentences(1)})],
    )
    _, twinless = checked_rows(stories["train"], "stories", silent=True)
    assert twinless == "stories, row 0", "dropout twins are needed"
    metrics = SalienceEvaluator(stories["validation"], operations="summarization")(trainable())
    assert any(name.endswith("summarization_auc") for name in metrics)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (["a", "t", "A.", "B.", "", "D.", "E."], "row 0, id 'a': 'story': sentence 2 is empty"),
        (["a", "t", "A."], "row 0, id 'a': 'story': sentence 1 is empty"),
        (["", "", "", "", "", "", ""], r"row 0, id 'roc.csv:0': 'story': sentence 0 is empty"),
    ],
)
def test_incomplete_rows(load, tmp_path, row, problem):
    with pytest.raises(RowError, match=f"roc.csv, {problem}"):
        load(table(tmp_path / "roc.csv", [row]))


def test_other_files_are_refused(load, tmp_path):
    stories = roc(tmp_path / "roc.csv", 1)
    val = salience(tmp_path / "val.json", {"id-1": sentences(1)})
    with pytest.raises(
        ValueError,
        match="val.json is not a .csv; pass the tables of ROCStories, and stories with labels",
    ):
        load([stories, val])
    with pytest.raises(
        RowError,
        match=(
            "other.csv, row 0: no column 'synopsis_segmented'; .* a .csv must be TRIPOD's or"
            " ROCStories' table"
        ),
    ):
        load(table(tmp_path / "other.csv", [["a", "b"]], ["id", "story"]))
    segmented = "[STR_SENT] A. [END_SENT]"
    tripod = table(
        tmp_path / "tripod.csv",
        [["m", segmented, *"00000"]],
        ["movie_name", "synopsis_segmented", *"12345"],
    )
    with pytest.raises(
        RowError, match="is a synopsis with turning points; load it with load_turning_points"
    ):
        load(tripod)
    (bad := tmp_path / "bad.json").write_text('{"id-1": {"text": "A."}}')
    with pytest.raises(RowError, match="bad.json, row 0, id 'id-1': no column 'story'"):
        load(stories, exclude=bad)


def test_tables_are_scored(tmp_path, bert_folder, capsys):
    stories = roc(tmp_path / NAMES[0], 1, 2)
    out = tmp_path / "scores.jsonl"
    options = ["--model", bert_folder, "--device", "cpu", "--operations", "summarization", "-q"]
    assert main(["score", stories, *options, "-f", "jsonl", "-o", str(out)]) == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["id"], row["sentences"]) for row in found] == [
        ("id-1", sentences(1)),
        ("id-2", sentences(2)),
    ]
    assert (
        main(["score", table(tmp_path / "other.csv", [["a", "b"]], ["ours", "theirs"]), *options])
        == 1
    )
    assert (
        "other.csv: has no column of stories that is known (its columns: ours, theirs)"
        in capsys.readouterr().err
    )


def test_twins_are_made_of_tables(tmp_path, capsys):
    command = [
        "make",
        "twins",
        roc(tmp_path / "roc.csv", 1, 2),
        "--out",
        str(tmp_path / "twins.jsonl"),
        "--dry-run",
    ]
    assert main([*command, "--server", "http://localhost:1/v1", "--model", "tiny"]) == 0
    out, _ = capsys.readouterr()
    assert "Omar had 1 mills." in out and "2 stories, 0 saved answers" in out

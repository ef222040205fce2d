"""Rows and results: which row of which file each result is of, in all formats; columns that are
kept; rows that are sentences; stories within other JSON."""

import csv
import io
import json
from functools import partial

import pyarrow.parquet
import pytest
from datasets import Dataset, load_dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins.books.story_files import read_story_files
from narrative_twins.data import RowError
from narrative_twins.evaluation.labelled_stories import load_labelled
from narrative_twins.show.formats import read_results
from narrative_twins.stories.rows import RowColumns
from narrative_twins.writing import JsonlLog

from support.command import run
from support.rows import read_rows, write_rows

FILMS = [
    {"movie_name": "Salt", "plot": "Runa woke. It rained.", "year": 1999, "genre": "=noir"},
    {"movie_name": "Mill", "plot": "", "year": 2001, "genre": None},
    {"movie_name": "Rope", "plot": "Runa sat. Otto ran.", "year": None, "genre": "road"},
]
SENTENCES = """story_id,sentence_id,text,label
a,10,The lamp was cold.,0
b,1,Ida sang.,1
a,2,Runa woke.,1
a,11,Otto had taken the map.,0
b,2,The bell fell.,0
"""


@pytest.fixture
def score(bert_folder, tmp_path):
    options = ["--device", "cpu", "--dtype", "float32", "--operations", "deletion"]
    return partial(run, "score", "--model", bert_folder, *options, cwd=tmp_path)


@pytest.fixture
def corpus(bert_folder, tmp_path):
    options = ["--device", "cpu", "--dtype", "float32", "--operations", "deletion", "-o", "out"]
    return partial(run, "corpus", "--model", bert_folder, *options, cwd=tmp_path)


def cells(done):
    return list(csv.DictReader(io.StringIO(done.out)))


def shards(folder):
    return pyarrow.parquet.read_table(folder).to_pylist()


def write_films(folder, form):
    path = folder / f"films.{form}"
    if form == "parquet":
        Dataset.from_list(FILMS).to_parquet(path)
    elif form == "json":
        path.write_text(json.dumps({"films": FILMS}))
    elif form == "jsonl":
        write_rows(path, FILMS)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, FILMS[0])
            writer.writeheader()
            writer.writerows(FILMS)
    return path.name


# Which row a result is of


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet"])
def test_each_result_has_its_row_its_name_and_kept_columns(form, score, corpus, tmp_path):
    """In all formats, after a row that was refused."""
    name = write_films(tmp_path, form)
    done = score(name, "-f", "jsonl", "--keep", "year,genre", "-o", "scores.jsonl")
    assert done.code == 1
    assert "narrative-twins: the stories are named by the column 'movie_name'; --id" in done.err
    assert done.err.count("movie_name") == 1 and "row 1" in done.err.replace("item", "row")
    rows = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    year = "1999" if form == "csv" else 1999
    place = {"id": "Salt", "file": name, "row": 0, "year": year, "genre": "=noir"}
    assert rows[0].items() >= place.items() and list(rows[0])[:5] == list(place)
    assert (rows[1]["id"], rows[1]["row"], rows[1]["genre"]) == ("Rope", 2, "road")
    assert rows[1]["year"] == ("" if form == "csv" else None)

    table = cells(score(name, "-f", "csv", "--keep", "year,genre"))
    numbered = [(row["file"], row["row"], row["story"], row["index"]) for row in table]
    assert numbered == [(name, n, s, i) for n, s in (("0", "Salt"), ("2", "Rope")) for i in "01"]
    assert [(row["year"], row["genre"]) for row in table[::2]] == [("1999", "'=noir"), ("", "road")]
    assert cells(run("show", tmp_path / "scores.jsonl", "-f", "csv")) == table
    shown = run("show", tmp_path / "scores.jsonl").out
    assert f"Salt (row 0 of {name}): 2 sentences" in shown and f"Rope (row 2 of {name})" in shown

    assert corpus(name, "--keep", "year,genre").code == 1
    loaded = shards(tmp_path / "out")
    assert [(row["file"], row["row"], row["id"]) for row in loaded] == [
        (name, 0, "Salt"),
        (name, 1, "Mill"),
        (name, 2, "Rope"),
    ]
    assert [row["genre"] for row in loaded] == ["=noir", "" if form == "csv" else None, "road"]
    assert [row["error"] is None for row in loaded] == [True, False, True]
    columns = load_dataset(str(tmp_path / "out"), split="train").features
    assert columns["year"].dtype == columns["genre"].dtype == "string"


def test_rows_are_counted_in_each_file_and_a_resumed_run_has_them_too(score, tmp_path, monkeypatch):
    name = write_films(tmp_path, "csv")
    (tmp_path / "plain.jsonl").write_text('"Runa woke. It rained."\n\n{"text": \n"Otto ran."\n')
    (tmp_path / "tale.txt").write_text("Ida sang. The bell fell.")
    files = ["plain.jsonl", name, "tale.txt"]
    done = score(*files, "-f", "jsonl")
    places = [(row["file"], row["row"]) for row in done.rows]
    assert places == [("plain.jsonl", 0), ("plain.jsonl", 2), (name, 0), (name, 2), ("tale.txt", 0)]
    assert "plain.jsonl, line 3 (row 1): is not valid JSON" in done.err
    out, log = tmp_path / "scores.jsonl", tmp_path / "scores.jsonl.part"
    with monkeypatch.context() as patch:
        patch.setattr(JsonlLog, "complete", lambda log, path: None)
        score(*files, "-o", out)
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:3]))
    assert "keep" in score(*files, "-o", out, "--resume", "--keep", "title").err
    assert score(*files, "-o", out, "--resume").code == 1
    assert [(row["file"], row["row"]) for row in read_rows(out)] == places
    shown = run("show", out, "-f", "extract").out
    assert "story 1 of plain.jsonl\n" in shown and "story 3 of plain.jsonl\n" in shown


def test_saved_results_without_rows_are_read_and_their_other_keys_are_kept(tmp_path):
    data = {
        "sentences": ["He ran."],
        "spans": [[0, 7]],
        "windows": [[0, 1]],
        "scores": {"a": [0.5]},
    }
    write_rows(tmp_path / "old.jsonl", [data, data | {"row": 7, "title": "Salt", "top": []}])
    old, new = read_results([tmp_path / "old.jsonl"])
    assert (old.row, old.file, dict(old.kept), old.name) == (0, None, {}, "story 1")
    assert (new.row, new.index, dict(new.kept), new.story.id) == (7, 1, {"title": "Salt"}, None)
    assert new.json()["title"] == "Salt" and "top" not in new.json()


def test_names_of_stories_can_be_chosen(score, tmp_path):
    name = write_films(tmp_path, "jsonl")
    done = score(name, "-f", "jsonl", "--id-column", "genre")
    assert [row["id"] for row in done.rows] == ["=noir", "road"] and "named" not in done.err
    done = score(name, "--id-column", "director")
    assert "no column 'director' (it has movie_name, plot, year, genre); name one" in done.err
    (tmp_path / "a.csv").write_text("Story ID,title,text\n7,Salt,Runa woke.\n,Rope,Otto ran.\n")
    assert [row["id"] for row in score("a.csv", "-f", "jsonl").rows] == ["7", "Rope"]


def test_columns_that_can_not_be_kept(score, tmp_path):
    name = write_films(tmp_path, "csv")
    done = score(name, "--keep", "genre,director")
    assert done.code == 1 and "no column 'director' (it has movie_name" in done.err
    for column in ("scores", "index", "row"):
        done = score(name, "--keep", column)
        assert done.code == 2 and f"--keep {column}: scores have a column of this name" in done.err
    write_rows(
        tmp_path / "a.jsonl", [{"text": "He ran."}, {"text": "It rained.", "tags": ["a", 1]}]
    )
    done = score("a.jsonl", "--keep", "tags", "-f", "csv")
    assert [row["tags"] for row in cells(done)] == ["", '["a", 1]']
    assert "a.jsonl, line 1 (row 0) has no column 'tags' to keep; it is null there" in done.err


# A sentence in each row


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "csv", "html", "extract"])
def test_rows_of_one_sentence_are_noticed(form, score, corpus, tmp_path):
    (tmp_path / "a.csv").write_text(SENTENCES)
    done = score("a.csv", "-f", form)
    assert done.code == 0 and done.err.count("each of the 5 stories is one sentence") == 1
    assert "--group story_id" in done.err
    if form == "json":
        note = corpus("a.csv").err
        assert "each of the 5 stories is one sentence" in note and "--group story_id" in note
        assert "each of the 5 stories is one sentence" in corpus("a.csv", "--quiet").err
    (tmp_path / "a.csv").write_text(SENTENCES + "c,1,He ran. He fell. It rained.,0\n")
    assert "5 of the 6 stories are one sentence" in score("a.csv", "-f", form).err
    (tmp_path / "one.txt").write_text("He ran.")
    assert score("one.txt", "-f", form).err == ""


def test_rows_are_grouped_and_sorted(score, corpus, tmp_path):
    (tmp_path / "a.csv").write_text(SENTENCES)
    done = score("a.csv", "--group", "story_id", "--keep", "label", "-f", "jsonl")
    assert done.code == 0 and "sorted by the column 'sentence_id'" in done.err
    a, b = done.rows
    expected = ["Runa woke.", "The lamp was cold.", "Otto had taken the map."]
    assert (a["id"], a["row"], a["rows"]) == ("a", 0, [2, 0, 3])
    assert (a["sentences"], a["label"]) == (expected, ["1", "0", "0"])
    assert (b["id"], b["row"], b["rows"], b["label"]) == ("b", 1, [1, 4], ["1", "0"])
    for order in (["--order", "row"], ["--order", "sentence_id"]):
        done = score("a.csv", "--group", "story_id", *order, "-f", "csv", "--keep", "label")
        table = cells(done)
        rows = [row["row"] for row in table]
        assert rows == (["0", "2", "3", "1", "4"] if "row" in order else ["2", "0", "3", "1", "4"])
        assert done.err == "" and {row["row"]: row["label"] for row in table}["2"] == "1"
    (tmp_path / "s.jsonl").write_text(score("a.csv", "--group", "story_id", "-f", "jsonl").out)
    (first, _) = read_results([tmp_path / "s.jsonl"])
    assert first.rows == (2, 0, 3)
    assert corpus("a.csv", "--group", "story_id", "--keep", "label").code == 0
    assert [(row["rows"], row["label"]) for row in shards(tmp_path / "out")] == [
        ([2, 0, 3], ["1", "0", "0"]),
        ([1, 4], ["1", "0"]),
    ]


GROUPS = [
    (
        "a,1,He ran.\n,2,He fell.\nb,1,It rained.\n",
        "line 3 (row 1): the row has nothing in the colu",
    ),
    (
        "a,1,He ran.\na,,He fell.\n",
        "a.csv, line 3 (row 1) has nothing in the column 'sentence_id', by",
    ),
    (
        "a,2,He ran.\nb,1,x.\na,1,She ran.\na,2,He fell.\n",
        "a.csv, line 2 (row 0) and a.csv, line 5 (row 3) have the",
    ),
    ("a,1,He ran.\na,2, \n", "line 3 (row 1): the sentence is empty or white space; leave the row"),
    ("a,1,He ran.\na,2,\n", "line 3 (row 1): the sentence is empty or white space; leave the row"),
]


@pytest.mark.parametrize(("rows", "problem"), GROUPS)
def test_rows_that_can_not_be_grouped(rows, problem, score, tmp_path):
    (tmp_path / "a.csv").write_text(f"story_id,sentence_id,text\n{rows}")
    done = score("a.csv", "--group", "story_id", "-f", "jsonl")
    assert done.code == 1 and problem in done.err
    assert "the same value, '2', in the column 'sentence_id'" in done.err or "same" not in problem


def test_columns_that_do_not_number_sentences_do_not_sort_them(score, tmp_path):
    """Digests, and equal numbers in order, unless the user names the column."""
    for numbers in ("f3", "a1"), ("2", "2"):
        rows = "".join(
            f"a,{number},{text}\n" for number, text in zip(numbers, ("He ran.", "So."), strict=True)
        )
        (tmp_path / "a.csv").write_text(f"story_id,sentence_id,text\n{rows}")
        done = score("a.csv", "--group", "story_id", "-f", "jsonl")
        assert done.err == "" and done.rows[0]["rows"] == [0, 1]
        done = score("a.csv", "--group", "story_id", "--order", "sentence_id", "-f", "jsonl")
        assert [row["rows"] for row in done.rows] == ([[1, 0]] if "a1" in numbers else [])
        assert ("have the same value" in done.err) == ("2" in numbers)


def test_options_of_groups_that_do_not_fit(score, tmp_path):
    (tmp_path / "a.csv").write_text(SENTENCES)
    assert "no column 'book' (it has story_id, sentence_id" in score("a.csv", "--group", "book").err
    done = score("a.csv", "--group", "story_id", "--order", "page")
    assert "no column 'page' (it has story_id, sentence_id" in done.err and done.code == 1
    assert score("a.csv", "--order", "page").code == 2
    assert score("a.csv", "--group", "story_id", "--id-column", "label").code == 2


# Stories within other JSON

INSIDE = [
    ({"stories": [{"id": 1, "text": "He ran."}]}, ["He ran."]),
    ({"version": 2, "data": {"stories": [{"text": "He ran."}, {"text": "It rained."}]}}, ["He ran.", "It rained."]),
    ({"salt": {"text": "He ran."}, "rope": {"text": "It rained."}}, ["He ran.", "It rained."]),
    ({"train": [{"text": "He ran."}], "test": [{"text": "It rained."}]}, ["He ran.", "It rained."]),
    ({"stories": ["He ran. It rained.", "She ran."]}, ["He ran. It rained.", "She ran."]),
    ({"stories": {"salt": "He ran.", "rope": "It rained."}}, ["He ran.", "It rained."]),
    ({"stories": {"salt": {"text": "He ran."}}, "n": 1}, ["He ran."]),
    ({"id": 1, "lines": ["He ran.", "It rained."]}, ["(its columns: id, lines); name one of them with --column"]),
    ([{"id": 1, "data": {"text": "He ran."}}], ["named by --column data.text"]),
    ([{"id": 1, "story": {"body": "He ran."}}], ["'story' has an object, not a story; texts within it are named by --column story.body"]),
    ([{"id": 1, "paragraphs": [{"title": "a", "text": "He ran."}]}], ["--column paragraphs.text or --column paragraphs.title"]),
    ({"n": 2, "stories": [{"text": "a"}], "authors": [{"name": "b"}]}, ["lists of objects, under the keys 'stories', 'authors'"]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), INSIDE)
def test_stories_within_other_json_are_read_or_told(value, expected, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(value))
    documents = list(read_story_files([str(tmp_path / "a.json")]))
    for document, text in zip(documents, expected, strict=True):
        content = document.content
        assert text in (
            document.problem or (content if isinstance(content, str) else content["text"])
        )
    assert [document.row for document in documents] == list(range(len(documents)))


def test_a_text_within_a_row_is_named_by_its_keys(score, tmp_path):
    write_rows(tmp_path / "a.jsonl", [{"id": 5, "data": {"text": "He ran."}}])
    (row,) = score("a.jsonl", "--column", "data.text", "-f", "jsonl").rows
    assert (row["id"], row["sentences"]) == (5, ["He ran."])
    parts = [{"text": "He ran."}, {"text": "It rained."}]
    write_rows(tmp_path / "c.jsonl", [{"id": 6, "parts": parts}, {"stories": parts}])
    done = score("c.jsonl", "--column", "parts.text", "-f", "jsonl")
    assert done.rows[0]["sentences"] == ["He ran.", "It rained."] and len(done.rows) == 1
    assert "in a file that ends in .json each is read as a story" in score("c.jsonl").err
    ids = [{"salt": {"text": "He ran."}, "rope": {"id": 3, "text": "It rained."}}]
    (tmp_path / "b.json").write_text(json.dumps(*ids))
    assert [row["id"] for row in score("b.json", "-f", "jsonl").rows] == ["salt", 3]


# Every row is in a result or is reported

VALUES = st.sampled_from(["Runa woke. It rained.", "Otto ran.", "", " ", "\u200b", None])
TABLES = st.lists(
    st.fixed_dictionaries(
        {"story_id": st.sampled_from(["a", "b", "c", ""]), "n": st.integers(0, 4), "text": VALUES}
    ),
    max_size=8,
)


def documents_of(folder, rows, form, columns):
    """The documents of a table in a format."""
    path = folder / f"table.{form}"
    if form == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["story_id", "n", "text"])
            writer.writeheader()
            writer.writerows(rows)
    elif form == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        schema = pyarrow.schema(
            [("story_id", pyarrow.string()), ("n", pyarrow.int64()), ("text", pyarrow.string())]
        )
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), path)
    return list(read_story_files([str(path)], columns=columns))


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet"])
@settings(max_examples=25, deadline=None)
@given(rows=TABLES)
def test_every_row_is_in_a_document(form, tmp_path_factory, rows):
    """In order; of groups each row is in one story, or is reported."""
    folder = tmp_path_factory.mktemp("rows")
    documents = documents_of(folder, rows, form, RowColumns())
    assert [document.row for document in documents] == list(range(len(rows)))
    for document, row in zip(documents, rows, strict=True):
        assert document.problem or (document.content["text"] or "") == (row["text"] or "")
    stories = documents_of(folder, rows, form, RowColumns(group="story_id", order="n"))
    numbers = [n for document in stories for n in document.rows or [document.row]]
    assert sorted(numbers) == list(range(len(rows)))
    for document in stories:
        if document.problem is None:
            of_story = [rows[n] for n in document.rows]
            assert {row["story_id"] for row in of_story} == {document.content["id"]}
            places = [row["n"] for row in of_story]
            assert places == sorted(set(places))
            assert document.content["sentences"] == [row["text"] for row in of_story]


@settings(max_examples=6, deadline=None)
@given(rows=TABLES)
@pytest.mark.parametrize("command", ["score", "corpus"])
def test_every_row_is_in_a_result_or_reported(command, bert_folder, tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    write_rows(folder / "a.jsonl", rows)
    options = ["--model", bert_folder, "--device", "cpu", "--operations", "deletion", "--fast"]
    if command == "corpus":
        run(command, "a.jsonl", *options, "-o", "out", "--shard-rows", 3, cwd=folder)
        scored = shards(folder / "out") if rows else []
        assert [row["row"] for row in scored] == list(range(len(rows)))
        results = [row for row in scored if row["error"] is None]
    else:
        done = run(command, "a.jsonl", *options, "-f", "jsonl", cwd=folder)
        results = done.rows
        reported = [n for n in range(len(rows)) if f"(row {n}): " in done.err]
        assert sorted([row["row"] for row in results] + reported) == list(range(len(rows)))
        assert [row["row"] for row in results] == sorted(row["row"] for row in results)
    for result in results:
        row = rows[result["row"]]
        assert "".join(result["sentences"]).split() == row["text"].replace(". ", ".").split()


LABELLED = st.lists(
    st.fixed_dictionaries(
        {"sentences": st.sampled_from([["Runa woke.", "It rained."], ["So.", " "]])}
        | {"labels": st.sampled_from([[0, 1], [1]])}
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
@settings(max_examples=15, deadline=None)
@given(rows=LABELLED)
def test_labelled_rows_are_all_read_or_the_first_bad_one_is_named(form, tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / f"a.{form}"
    if form == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif form == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        write_rows(path, rows)
    is_bad = [row["sentences"][1] == " " or len(row["labels"]) == 1 for row in rows]
    if any(is_bad):
        first = is_bad.index(True)
        with pytest.raises(RowError, match=f"id 'a.{form}:{first}'"):
            load_labelled(path)
    else:
        stories = load_labelled(path).stories
        assert [story.id for story in stories] == [f"a.{form}:{n}" for n in range(len(rows))]

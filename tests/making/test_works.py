"""Works: rows, documents of `Tell me again!`, and the files that they are read from: archives that
expand, names that control a terminal, and folders with files that never end."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from narrative_twins.data import RowError
from narrative_twins.making import works
from narrative_twins.making.works import Candidate, Work, read_documents, read_works
from narrative_twins.stories.reading import Document, LimitedFile


def read(content, anonymized=False):
    ((name, found),) = read_works([Document("here.json", content)], anonymized)
    assert name == "here.json"
    if isinstance(found, RowError):
        raise found
    return found


def test_rows_in_every_form():
    sentences = ["Omar ran.", "It rained."]
    row = {
        "id": 7,
        "title": "Rain",
        "story": "Omar ran. It rained.",
        "twins": [
            sentences,
            "Omar ran. It rained.",
            {"sentences": sentences, "language": "de", "similarity": 0.5},
            {"text": "Omar ran. It rained.", "similarity": None},
        ],
    }
    found = read(row)
    assert (found.id, found.title, found.story) == ("7", "Rain", sentences)
    assert found.candidates == [Candidate(sentences)] * 2 + [
        Candidate(sentences, "de", 0.5),
        Candidate(sentences),
    ]
    named, same = (read({"story": story, "twins": []}).id for story in (sentences, row["story"]))
    assert named == same and len(named) == 12
    assert read({"story": ["Nadia ran."], "twins": []}).id != named


@pytest.mark.parametrize(
    ("measured", "taken"), [(1.0000001, 1), (-1.0005, -1), (1, 1), (float("nan"), None)]
)
def test_similarities_with_rounding_errors(measured, taken):
    found = read({"story": ["A."], "twins": [{"text": "B.", "similarity": measured}]})
    assert found.candidates[0].similarity == taken


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "is list; an object with 'story' and 'twins'"),
        ({"twins": []}, "no column 'story'"),
        ({"story": ["A."]}, "no column 'twins'"),
        ({"story": [""], "twins": []}, "'story': sentence 0 is empty"),
        ({"story": ["A."], "twins": "A."}, "'twins' is str; a list of tellings"),
        ({"story": ["A."], "twins": [["A."], 3]}, r"'twins\[1\]': a story is a text"),
        ({"story": ["A."], "twins": [{"text": " "}]}, r"'twins\[0\]': the story is empty"),
        (
            {"story": ["A."], "twins": [{"text": "A.", "similarity": 68.1}]},
            r"'twins\[0\].similarity' is 68.1",
        ),
        (
            {"story": ["A."], "twins": [{"text": "A.", "language": 3}]},
            r"'twins\[0\].language' is int",
        ),
        (
            {"story": ["A."], "twins": [{"text": "A.", "similarity": 1.01}]},
            r"'twins\[0\].similarity' is 1.01",
        ),
        (
            {"story": ["A."], "twins": [{"text": "A.", "language": "\ud800"}]},
            r"'twins\[0\].language' has a lone",
        ),
        ({"story": ["A."], "twins": [], "id": "a\ud800"}, "'id' has a lone surrogate"),
        ({"story": ["A."], "twins": [], "title": "a\ud800"}, "'title' has a lone surrogate"),
        ({"story": ["A."], "twins": [], "id": []}, "'id' is list"),
        ({"story": ["A."], "twins": [], "title": []}, "'title' is list"),
    ],
)
def test_invalid_rows(content, problem):
    with pytest.raises(RowError, match=f"here.json: .*{problem}"):
        read(content)


def summaries(**keys):
    """A document of `Tell me again!`."""
    document = {
        "wikidata_id": "Q12",
        "title": "The Mill",
        "titles": {"de": {"language": "de", "value": "Die Mühle"}},
        "description": "2001 film",
        "summaries": {
            "en": "# Plot\nOmar ran. It rained.\n\n## End\nHe fell.",
            "de": "Omar lief.",
            "fr": "Omar courut.",
        },
        "en_translated_summaries": {
            "de": {
                "text": "Omar walked.\nHe fell.",
                "translation_tool": "nllb",
                "sentences": ["Omar walked.", "He"],
            },
            "fr": {"text": "Omar raced.", "source_lang": "fr"},
        },
        "split_into_sents": {"en": ["Omar ran.", "It rained.", "He fell."]},
        "similarity": {
            "indexes": ["en", "de", "fr"],
            "similarities": [[0, 0.5, 0.7], [0.5, 0, 0.6], [0.7, 0.6, 0]],
        },
        "anonymized": {"en": "Abel ran. It rained.", "de": "Abel walked."},
    }
    return {key: value for key, value in (document | keys).items() if value is not ...}


def test_tell_me_again():
    assert read(summaries()) == Work(
        "Q12",
        "The Mill",
        ["Omar ran.", "It rained.", "He fell."],
        [Candidate(["Omar walked.", "He fell."], "de", 0.5), Candidate(["Omar raced."], "fr", 0.7)],
    )
    assert read(summaries(), anonymized=True) == Work(
        "Q12",
        "The Mill",
        ["Omar ran.", "It rained.", "He fell."],
        [Candidate(["Abel walked."], "de", 0.5)],
    )


@pytest.mark.parametrize("gap", [..., None])
def test_tell_me_again_with_missing_keys(gap):
    assert read(summaries(wikidata_id=gap)).id == "Qhere"
    assert read(summaries(title=gap)).title is None
    assert read(summaries(title={"language": "de", "value": "Die Mühle"})).title == "Die Mühle"
    assert read(summaries(summaries=gap)).story == []
    assert read(summaries(summaries={"de": "Omar lief."})).story == []
    assert read(summaries(summaries={"en": "# Plot\n\n ", "de": "Omar lief."})).story == []
    assert read(summaries(en_translated_summaries=gap)).candidates == []
    assert read(summaries(en_translated_summaries={"de": {}, "fr": {"text": ""}})).candidates == []
    assert [each.similarity for each in read(summaries(similarity=gap)).candidates] == [None, None]
    other = {"indexes": ["de", "fr"], "similarities": [[0, 0.6], [0.6, 0]]}
    assert [each.similarity for each in read(summaries(similarity=other)).candidates] == [
        None,
        None,
    ]
    nan = {"indexes": ["en", "de"], "similarities": [[0, float("nan")], [0.5, 0]]}
    assert [each.similarity for each in read(summaries(similarity=nan)).candidates] == [None, None]
    named = read(summaries(anonymized=gap), anonymized=True)
    assert (named.story, named.candidates) == (["Omar ran.", "It rained.", "He fell."], [])


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"wikidata_id": 12}, "'wikidata_id' is int"),
        ({"title": 3}, "'title' is int"),
        ({"wikidata_id": "Q\ud800"}, "'wikidata_id' has a lone surrogate"),
        ({"title": "\ud800"}, "'title' has a lone surrogate"),
        (
            {"en_translated_summaries": {"\ud800": {"text": "He ran."}}},
            "'en_translated_summaries' has a lone surrogate",
        ),
        (
            {"similarity": {"indexes": [{}], "similarities": [[0]]}},
            "'similarity.indexes' is dict; a text",
        ),
        ({"summaries": ["Omar ran."]}, "'summaries' is list; an object"),
        ({"summaries": {"en": ["Omar ran."]}}, "'summaries.en' is list; a text"),
        (
            {"en_translated_summaries": {"de": "Omar"}},
            "'en_translated_summaries.de' is str; an object",
        ),
        (
            {"en_translated_summaries": {"de": {"text": 3}}},
            "'en_translated_summaries.de.text' is int; a text",
        ),
        ({"similarity": []}, "'similarity' is list"),
        ({"similarity": {"indexes": "en"}}, "'similarity.indexes' is str"),
        (
            {"similarity": {"indexes": ["en"], "similarities": []}},
            "'similarity.similarities' is not a .* of the 1",
        ),
        (
            {"similarity": {"indexes": ["en"], "similarities": [[0, 1]]}},
            "'similarity.similarities' is not a square",
        ),
        (
            {"similarity": {"indexes": ["en"], "similarities": [[67.0]]}},
            r"'similarity.similarities \(en, en\)' is 67",
        ),
    ],
)
def test_tell_me_again_with_invalid_values(keys, problem):
    with pytest.raises(RowError, match=f"here.json: {problem}"):
        read(summaries(**keys))


def test_other_folders_and_files(tmp_path):
    row = {"id": "a", "story": ["Omar ran."], "twins": []}
    (tmp_path / "b.jsonl").write_text(
        json.dumps(row) + "\n\n" + json.dumps(row | {"id": "b"}) + "\n"
    )
    (tmp_path / "c.json").write_text(json.dumps([row | {"id": "c"}, summaries(wikidata_id="d")]))
    (tmp_path / "notes.txt").write_text("Omar ran.")
    assert [each.id for _, each in read_works(read_documents([str(tmp_path)]))] == [
        "a",
        "b",
        "c",
        "d",
    ]
    (tmp_path / "no.zip").write_bytes(b"PK")
    missing = str(tmp_path / "missing.jsonl")
    assert "not a zip file" in problems(tmp_path / "no.zip")[0]
    assert "missing.jsonl: can't be read" in problems(missing)[0]
    assert "missing: can't be read" in problems(tmp_path / "missing")[0]


def problems(path):
    return [
        str(each)
        for _, each in read_works(read_documents([str(path)]))
        if isinstance(each, RowError)
    ]


ROW = {"id": "a", "story": ["Omar ran."], "twins": []}


@pytest.mark.parametrize("name", ["works.txt", "works.jsonl.gz", "works.parquet", "works"])
def test_files_in_other_formats_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(json.dumps(ROW).encode()))
    (problem,) = problems(tmp_path / name)
    assert problem.startswith(
        f"{tmp_path / name}: has an unsupported format; unpack or convert it to .json, .jsonl,"
    )


def test_folder_or_archive_without_works(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("Omar ran.")
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.writestr("a.txt", "Omar ran.")
    for name in ("notes", "notes.zip"):
        assert (
            "has no file that ends in one of .json, .jsonl, .ndjson" in problems(tmp_path / name)[0]
        )


def test_archive_is_read_like_a_folder_of_its_files(tmp_path):
    rows = [ROW | {"id": str(n)} for n in range(5)]
    files = {
        "a.json": json.dumps(rows[:2]),
        "b.ndjson": json.dumps(rows[2]) + "\n\n",
        "c.JSONL": "\ufeff" + json.dumps(rows[3]) + "\n{\n",
        "d.json": json.dumps(rows[4]),
        "notes.csv": "12",
    }
    (tmp_path / "all").mkdir()
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name, content in files.items():
            (tmp_path / "all" / name).write_text(content)
            archive.writestr(name, content)
    folder, packed = (
        list(read_works(read_documents([str(tmp_path / name)]))) for name in ("all", "all.zip")
    )
    assert [getattr(each, "id", None) for _, each in folder] == ["0", "1", "2", "3", None, "4"]
    names = [name.removeprefix(f"{tmp_path / 'all'}/") for name, _ in folder]
    assert [name.removeprefix(f"{tmp_path / 'all.zip'}, ") for name, _ in packed] == names
    assert [each for _, each in packed][:4] == [each for _, each in folder][:4]
    assert "c.JSONL, line 2: is not valid JSON" in str(packed[4][1]) and "--" not in str(
        packed[4][1]
    )


def test_damaged_and_locked_archives(tmp_path):
    """Each unreadable file is reported, and the others are read."""
    path = tmp_path / "works.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abcd":
            archive.writestr(f"{name}.json", json.dumps(ROW | {"id": name, "title": "Rain " * 50}))
        starts = {name: archive.getinfo(f"{name}.json").header_offset for name in "abcd"}
    data = bytearray(path.read_bytes())
    # Change the compressed bytes of the first file, the password flag of the second, the method of
    # the third; flag and method also in the central directory.
    data[starts["a"] + 40 : starts["a"] + 60] = b"\xff" * 20
    for name, offset, value in (("b", 6, 1), ("c", 8, 99)):
        data[starts[name] + offset] = value
        data[data.rindex(f"{name}.json".encode()) - 46 + offset + 2] = value
    path.write_bytes(data)
    found = list(read_works(read_documents([str(path)])))
    assert [isinstance(each, RowError) for _, each in found] == [True, True, True, False]
    for (name, error), member in zip(found[:3], "abc", strict=True):
        assert name.endswith(f"works.zip, {member}.json") and "can't be read (" in str(error)


def peak_memory(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["summaries/1.json", "rows.jsonl"])
def test_archive_that_expands_is_bounded_while_it_is_read(tmp_path, monkeypatch, name):
    """Ten thousand times its size: a document, or a line, is only read up to the limit."""
    monkeypatch.setattr(works, "MAX_LINE", 100_000)
    monkeypatch.setattr(LimitedFile.__init__, "__defaults__", (100_000, None))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "rows.jsonl" if "json" == name[-4:] else "other.jsonl",
            b'{"story": ["A."], "twins": []}\n',
        )
        with archive.open(name, "w") as file:
            for _ in range(100):
                file.write(b" " * 1_000_000)
    found = []
    assert (
        peak_memory(lambda: found.extend(read_documents([str(tmp_path / "bomb.zip")]))) < 5_000_000
    )
    problems = [document.problem for document in found if document.problem]
    assert len(problems) == 1 and "has more than 100,000 bytes" in problems[0]


def test_archive_is_bounded_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(works, "MAX_ARCHIVE", 1_000)
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(50):
            archive.writestr(f"{number:02}.json", json.dumps({"a": "x" * 90}))
    found = list(read_documents([str(tmp_path / "many.zip")]))
    read = [document for document in found if not document.problem]
    assert (
        len(read) == 10
        and len(found) == 50
        and all("more than" in found[n].problem for n in range(10, 50))
    )


def test_names_in_archives_are_printable(tmp_path):
    with zipfile.ZipFile(tmp_path / "names.zip", "w") as archive:
        archive.writestr("a\x1b[31m\n.json", "{")
    (document,) = read_documents([str(tmp_path / "names.zip")])
    assert document.name.isprintable() and "a\ufffd[31m\ufffd.json" in document.name


def test_pipes_and_devices_in_folders_are_left_out(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "work.json").write_text("{}")
    assert [Path(document.name).name for document in read_documents([str(tmp_path)])] == [
        "work.json"
    ]

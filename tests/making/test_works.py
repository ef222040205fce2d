"""Works: rows, documents of `Tell me again!`, and the files that they are read from: archives that
expand, names that control a terminal, and folders with files that never end."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from narrative_twins.data import RowError
from narrative_twins.making import works
from narrative_twins.making.works import Candidate, Work, read_documents, read_works
from narrative_twins.stories import reading
from narrative_twins.stories.reading import Document

from support.readers import memory_below

ROW = {"id": "a", "story": ["Omar ran."], "twins": []}


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
            {"text": "Omar ran. It rained.", "similarity": float("nan")},
            {"sentences": sentences, "similarity": -1.0005},
        ],
    }
    found = read(row)
    assert (found.id, found.title, found.story) == ("7", "Rain", sentences)
    languages = [None, None, "de", None, None]
    measured = [None, None, 0.5, None, -1]
    assert found.candidates == [
        Candidate(sentences, *known) for known in zip(languages, measured, strict=True)
    ]
    named, same = (read({"story": story, "twins": []}).id for story in (sentences, row["story"]))
    assert named == same and len(named) == 12
    assert read({"story": ["Nadia ran."], "twins": []}).id != named


def summaries(**keys):
    """A document of `Tell me again!`."""
    document = {
        "wikidata_id": "Q12",
        "title": "The Mill",
        "titles": {"de": {"language": "de", "value": "Die Mühle"}},
        "summaries": {"en": "# Plot\nOmar ran. It rained.\n\n## End\nHe fell.", "de": "Omar lief."},
        "en_translated_summaries": {
            "de": {"text": "Omar walked.\nHe fell.", "sentences": ["Omar walked.", "He"]},
            "fr": {"text": "Omar raced.", "source_lang": "fr"},
        },
        "similarity": {
            "indexes": ["en", "de", "fr"],
            "similarities": [[0, 0.5, 0.7], [0.5, 0, 0.6], [0.7, 0.6, 0]],
        },
        "anonymized": {"en": "Abel ran. It rained.", "de": "Abel walked."},
    }
    return {key: value for key, value in (document | keys).items() if value is not ...}


STORY = ["Omar ran.", "It rained.", "He fell."]


def test_tell_me_again():
    german = Candidate(["Omar walked.", "He fell."], "de", 0.5)
    french = Candidate(["Omar raced."], "fr", 0.7)
    assert read(summaries()) == Work("Q12", "The Mill", STORY, [german, french])
    abel = Candidate(["Abel walked."], "de", 0.5)
    assert read(summaries(), anonymized=True) == Work("Q12", "The Mill", STORY, [abel])


@pytest.mark.parametrize("gap", [..., None])
def test_tell_me_again_with_missing_keys(gap):
    assert read(summaries(wikidata_id=gap)).id == "Qhere"
    assert read(summaries(title=gap)).title is None
    assert read(summaries(title={"language": "de", "value": "Die Mühle"})).title == "Die Mühle"
    for own in (gap, {"de": "Omar lief."}, {"en": "# Plot\n\n ", "de": "Omar lief."}):
        assert read(summaries(summaries=own)).story == []
    for translated in (gap, {"de": {}, "fr": {"text": ""}}):
        assert read(summaries(en_translated_summaries=translated)).candidates == []
    other = {"indexes": ["de", "fr"], "similarities": [[0, 0.6], [0.6, 0]]}
    nan = {"indexes": ["en", "de"], "similarities": [[0, float("nan")], [0.5, 0]]}
    for similarity in (gap, other, nan):
        found = read(summaries(similarity=similarity))
        assert [each.similarity for each in found.candidates] == [None, None]
    named = read(summaries(anonymized=gap), anonymized=True)
    assert (named.story, named.candidates) == (STORY, [])


def twin(**values):
    return ROW | {"twins": [{"text": "A."} | values]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "is list; an object with 'story' and 'twins'"),
        ({"twins": []}, "no column 'story'"),
        ({"story": ["A."]}, "no column 'twins'"),
        (ROW | {"story": [""]}, "'story': sentence 0 is empty"),
        (ROW | {"twins": "A."}, "'twins' is str; a list is needed"),
        (ROW | {"twins": [["A."], 3]}, r"'twins\[1\]': a story is a text"),
        (twin(text=" "), r"'twins\[0\]': the story is empty"),
        (twin(similarity=68.1), r"'twins\[0\].similarity' is 68.1"),
        (twin(similarity=1.01), r"'twins\[0\].similarity' is 1.01"),
        (twin(language=3), r"'twins\[0\].language' is int"),
        (twin(language="\ud800"), "the id, the title or a language has a lone surrogate"),
        (ROW | {"id": "a\ud800"}, "has a lone surrogate"),
        (ROW | {"id": True}, "'id' is bool"),
        (ROW | {"title": []}, "'title' is list"),
        (summaries(wikidata_id=12), "'wikidata_id' is int"),
        (summaries(title="\ud800"), "has a lone surrogate"),
        (summaries(en_translated_summaries={"\ud800": {"text": "Hm."}}), "has a lone surrogate"),
        (summaries(summaries=["Omar ran."]), "'summaries' is list; an object"),
        (summaries(summaries={"en": ["Omar ran."]}), "'summaries.en' is list; a text"),
        (
            summaries(en_translated_summaries={"de": "Omar"}),
            "'en_translated_summaries.de' is str; an object",
        ),
        (summaries(similarity=[]), "'similarity' is list"),
        (summaries(similarity={"indexes": "en"}), "'similarity.indexes' is str"),
        (
            summaries(similarity={"indexes": ["en"], "similarities": [[0, 1]]}),
            "'similarity.similarities' is not a square matrix of the 1",
        ),
        (
            summaries(similarity={"indexes": ["en"], "similarities": [[67.0]]}),
            r"'similarity.similarities \(en, en\)' is 67",
        ),
    ],
)
def test_invalid_documents(content, problem):
    with pytest.raises(RowError, match=f"here.json: .*{problem}"):
        read(content)


def problems(path):
    found = read_works(read_documents([str(path)]))
    return [str(each) for _, each in found if isinstance(each, RowError)]


def test_files_that_are_no_works(tmp_path):
    (tmp_path / "no.zip").write_bytes(b"PK")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("Omar ran.")
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.writestr("a.txt", "Omar ran.")
    for name in ("works.jsonl.gz", "works"):
        (tmp_path / name).write_bytes(b"\x1f\x8b")
    unsupported = "has an unsupported format; unpack or convert it to .json, .jsonl,"
    empty = "has no file that ends in one of .json, .jsonl, .ndjson"
    for name, problem in {
        "no.zip": "can't be read (File is not a zip file)",
        "missing.jsonl": "can't be read",
        "missing": "can't be read",
        "works.jsonl.gz": unsupported,
        "works": unsupported,
        "notes": empty,
        "notes.zip": empty,
    }.items():
        assert f"{tmp_path / name}: {problem}" in problems(tmp_path / name)[0]


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
    assert "c.JSONL, line 2: is not valid JSON" in str(packed[4][1])


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


@pytest.mark.parametrize("name", ["summaries/1.json", "rows.jsonl"])
def test_archive_that_expands_is_bounded_while_it_is_read(tmp_path, monkeypatch, name):
    """Ten thousand times its size: a document, or a line, is only read up to the limit."""
    monkeypatch.setattr(reading, "MAX_LINE", 100_000)
    monkeypatch.setattr(reading, "MAX_DOCUMENT", 100_000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("other.jsonl", json.dumps(ROW) + "\n")
        with archive.open(name, "w") as file:
            for _ in range(100):
                file.write(b"x" * 1_000_000)
    with memory_below(5_000_000):
        found = [document.problem for document in read_documents([str(tmp_path / "bomb.zip")])]
    (problem,) = filter(None, found)
    assert "of more than 100,000 bytes" in problem


def test_archive_is_bounded_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(works, "MAX_ARCHIVE", 1_000)
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(50):
            archive.writestr(f"{number:02}.json", json.dumps({"a": "x" * 90}))
    (found,) = read_documents([str(tmp_path / "many.zip")])
    assert "it has more than 1,000 bytes; unpack it first" in found.problem


def test_names_in_archives_are_printable(tmp_path):
    with zipfile.ZipFile(tmp_path / "names.zip", "w") as archive:
        archive.writestr("a\x1b[31m\n.json", "{")
    (document,) = read_documents([str(tmp_path / "names.zip")])
    assert document.name.isprintable() and "a\ufffd[31m\ufffd.json" in document.name


def test_pipes_and_devices_in_folders_are_left_out(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "work.json").write_text("{}")
    found = [Path(document.name).name for document in read_documents([str(tmp_path)])]
    assert found == ["work.json"]

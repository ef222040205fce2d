"""Works: rows, documents of `Tell me again!`, and the files that they are read from."""

import json

import pytest

from narrative_twins.data import RowError
from narrative_twins.making.long_twins import Candidate, Work, read_works, work_files

ROW = {"id": "a", "story": ["Omar ran."], "twins": []}


@pytest.fixture
def read(tmp_path):
    """Reads the work of a document in a file."""

    def read(content, anonymized=False):
        path = tmp_path / "12.json"
        path.write_text(json.dumps(content), "utf-8")
        ((name, work),) = read_works([str(path)], anonymized)
        assert name == str(path)
        if isinstance(work, RowError):
            raise work
        return work

    return read


def test_rows_in_every_form(read):
    sentences, text = ["Omar ran.", "It rained."], "Omar ran. It rained."
    twins = [
        sentences,
        text,
        {"sentences": sentences, "language": "de", "similarity": 0.5},
        {"text": text, "similarity": float("nan")},
        {"sentences": sentences, "similarity": -1.0005},
    ]
    work = read({"id": 7, "title": "Rain", "story": text, "twins": twins})
    facts = [(), (), ("de", 0.5), (), (None, -1)]
    assert work == Work("7", "Rain", sentences, [Candidate(sentences, *each) for each in facts])
    named, same = (read({"story": story, "twins": []}).id for story in (sentences, text))
    assert named == same and len(named) == 12
    assert read({"story": ["Nadia ran."], "twins": []}).id != named


def summaries(**keys):
    """A document of `Tell me again!`."""
    document = {
        "wikidata_id": "Q9",
        "title": "The Mill",
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


def test_tell_me_again(read):
    german = Candidate(["Omar walked.", "He fell."], "de", 0.5)
    french = Candidate(["Omar raced."], "fr", 0.7)
    assert read(summaries()) == Work("Q9", "The Mill", STORY, [german, french])
    abel = Candidate(["Abel walked."], "de", 0.5)
    assert read(summaries(), anonymized=True) == Work("Q9", "The Mill", STORY, [abel])


@pytest.mark.parametrize("gap", [..., None])
def test_tell_me_again_with_missing_keys(gap, read):
    assert read(summaries(wikidata_id=gap)).id == "Q12"
    assert read(summaries(title=gap)).title is None
    assert read(summaries(title={"language": "de", "value": "Die Mühle"})).title == "Die Mühle"
    for texts in (gap, {"de": "Omar lief."}, {"en": "# Plot\n\n ", "de": "Omar lief."}):
        assert read(summaries(summaries=texts)).story == []
    for translated in (gap, {"de": {}, "fr": {"text": ""}}):
        assert read(summaries(en_translated_summaries=translated)).candidates == []
    other = {"indexes": ["de", "fr"], "similarities": [[0, 0.6], [0.6, 0]]}
    nan = {"indexes": ["en", "de"], "similarities": [[0, float("nan")], [0.5, 0]]}
    for similarity in (gap, other, nan):
        work = read(summaries(similarity=similarity))
        assert [each.similarity for each in work.candidates] == [None, None]
    assert read(summaries(anonymized=gap), anonymized=True).candidates == []


def twin(**values):
    return ROW | {"twins": [{"text": "A."} | values]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (5, "is not a work"),
        ({"story": ["A."]}, "is not a work .*'twins'"),
        (ROW | {"story": [""]}, "'story': sentence 0 is empty"),
        (ROW | {"twins": "A."}, "'twins' is str; a list of versions"),
        (ROW | {"twins": [["A."], 3]}, r"'twins\[1\]': a story is a text"),
        (twin(text=" "), r"'twins\[0\]': the story is empty"),
        (twin(similarity=68.1), "similarity 68.1 is above 1"),
        (twin(language="\ud800"), "the title or a language has a lone surrogate"),
        (summaries(summaries={"en": ["Omar ran."]}), "is not a work"),
        (summaries(en_translated_summaries={"de": "Omar"}), "is not a work"),
        (summaries(similarity={"indexes": ["en"], "similarities": [[0, 1]]}), "is not a work"),
    ],
)
def test_invalid_documents(content, problem, read):
    with pytest.raises(RowError, match=f"12.json: .*{problem}"):
        read(content)


def test_files_in_folders(tmp_path):
    """Those in folders `summaries`, if there are any; a bad line is reported, others are read."""
    (tmp_path / "1" / "summaries").mkdir(parents=True)
    for name in ("b.jsonl", "1/a.json", "1/notes.txt"):
        (tmp_path / name).write_text(f"{json.dumps(ROW)}\n{{\n")
    files = work_files([str(tmp_path), "-", "none.json"])
    assert files == [str(tmp_path / "1/a.json"), str(tmp_path / "b.jsonl"), "-", "none.json"]
    (name, work), (other, error) = read_works([str(tmp_path / "b.jsonl")])
    assert work.story == ["Omar ran."] and "line 2: is not valid JSON" in str(error)
    ((_, missing),) = read_works(["none.json"])
    assert "none.json: can't be read" in str(missing)
    (tmp_path / "1/summaries/12.json").write_text("{}")
    assert work_files([str(tmp_path)]) == [str(tmp_path / "1/summaries/12.json")]

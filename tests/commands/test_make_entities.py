"""The command `narrative-twins make entities`."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path

import pytest

from narrative_twins import extras
from narrative_twins.data import load_story_twins
from narrative_twins.files import read_settings
from narrative_twins.making.names import read_names
from narrative_twins.making.substitution import EntitySubstitution

from support.command import run
from support.recognizers import recognizer, save_pipeline
from support.rows import read_rows, write_rows

spacy = pytest.importorskip(
    "spacy", reason="spaCy is not installed: pip install narrative_twins[entities]"
)
ROWS = [
    {
        "id": "a",
        "story": ["Anna Karenina ran.", "She hid in Moscow."],
        "twin": ["Karenina fled to Moscow."],
    },
    {"story": ["It rained."], "twin": ["Rain fell 🙂."], "note": {"of": ["Anna"]}},
    {
        "id": 3,
        "story": ["Vronsky {0} sat."],
        "twin": ["<b>Vronsky</b> sat at Acme."],
        "negative": ["Vronsky ran."],
    },
]
COUNTS = "people 2, places 1, organizations 1, other entities 0"


load_once = cache(spacy.load)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> str:
    return str(save_pipeline(tmp_path_factory.mktemp("spacy") / "pipeline"))


@pytest.fixture(autouse=True)
def pipelines_are_loaded_once(monkeypatch):
    monkeypatch.setattr(spacy, "load", load_once)


@pytest.fixture
def twins(tmp_path) -> Path:
    return write_rows(tmp_path / "twins.jsonl", ROWS)


@pytest.fixture
def entities(twins, pipeline, tmp_path):
    """Runs the command."""
    command = ["make", "entities", "twins.jsonl", "--out", "out.jsonl", "--pipeline", pipeline]
    return partial(run, *command, cwd=tmp_path)


def test_names_of_twins_are_replaced(entities, twins, tmp_path):
    done = entities()
    message = f"narrative-twins: replaced in 3 rows (1 without any): {COUNTS}\n"
    assert done == (0, "", message)
    a, b, c = read_rows(tmp_path / "out.jsonl")
    name = a["twin"][0].removesuffix(" fled to Location A.")
    assert name.istitle() and name != "Karenina"
    assert a == ROWS[0] | {"twin": [f"{name} fled to Location A."]}
    assert b == {"id": "twins.jsonl:1", **ROWS[1]}
    other = c["twin"][0].removeprefix("<b>").removesuffix("</b> sat at Organization A.")
    assert other.istitle() and other != "Vronsky"
    assert c == ROWS[2] | {"twin": [f"<b>{other}</b> sat at Organization A."]}
    loaded = [
        load_story_twins(str(path), split="train", cache_dir=str(tmp_path / "cache"))
        for path in (twins, tmp_path / "out.jsonl")
    ]
    assert loaded[0]["id"] == loaded[1]["id"]
    card = (tmp_path / "out.card.md").read_text()
    naming = "in the twins only, by names that occur nowhere else in the row"
    assert f"Names are replaced {naming}. There are other names in 2 of 3 rows." in card
    assert read_settings(str(tmp_path / "out.jsonl.run"))["names replaced"] == naming
    first = (tmp_path / "out.jsonl").read_text()
    assert entities("--out", "-").out == first
    assert entities().code == 0 and (tmp_path / "out.jsonl").read_text() == first


def test_same_names_in_all_texts(entities, tmp_path):
    assert entities("--same-names").code == 0
    a, b, c = read_rows(tmp_path / "out.jsonl")
    name = a["story"][0].removesuffix(" ran.")
    assert name.istitle()
    assert a["story"][1] == "She hid in Location A."
    assert a["twin"] == [f"{name} fled to Location A."]
    assert b == {"id": "twins.jsonl:1", **ROWS[1]}
    other = c["negative"][0].removesuffix(" ran.")
    assert other.istitle() and c["story"] == [f"{other} {{0}} sat."]
    assert c["twin"] == [f"<b>{other}</b> sat at Organization A."]
    words = "in all texts of a row, by the same new names"
    assert f"- names replaced: {words}" in (tmp_path / "out.card.md").read_text()


def test_rows_without_twins_or_names_are_reported(entities, twins):
    write_rows(twins, [{"story": ["Anna ran."]}, ROWS[0]])
    assert "1 of 2 rows have no twin, so no names are replaced there" in entities().err
    assert "no twin" not in entities("--same-names").err
    write_rows(twins, ROWS[1:2])
    assert "entities 0; does the pipeline recognize entities?\n" in entities().err


def test_locale_of_names(entities, tmp_path):
    assert entities("--names", "de_DE", "--seed", 1).code == 0
    name = read_rows(tmp_path / "out.jsonl")[0]["twin"][0].removesuffix(" fled to Location A.")
    assert name in read_names("de_DE")


def test_what_can_not_be_resumed(entities, tmp_path):
    """A run with other settings, and rows that are not those of the input."""
    entities()
    out = tmp_path / "out.jsonl"
    complete = out.read_bytes()
    done = entities("--resume")
    assert "other entities 0; 3 rows were done before" in done.err
    done = entities("--resume", "--same-names")
    assert done.code == 2 and "was started with" in done.err
    lines = complete.splitlines(keepends=True)
    for other in (lines[1] + lines[0], complete + lines[0], b"[]\n", b'{"story": []}\n'):
        out.write_bytes(other)
        done = entities("--resume")
        assert done.code == 2 and " is not " in done.err and out.read_bytes() == other


def test_rows_are_processed_in_batches(entities, twins, tmp_path, monkeypatch):
    rows = [{"id": number, "story": ["Anna ran."], "twin": ["Anna fled."]} for number in range(70)]
    write_rows(twins, rows)
    sizes, real = [], spacy.language.Language.pipe

    def pipe(self, texts, *arguments, **options):
        texts = list(texts)
        sizes.append(len(texts))
        yield from real(self, texts, *arguments, **options)

    monkeypatch.setattr(spacy.language.Language, "pipe", pipe)
    assert entities().code == 0
    assert sizes[-3:] == [64, 64, 12], "the texts of 32, 32 and 6 rows"
    single = EntitySubstitution(recognizer())
    assert read_rows(tmp_path / "out.jsonl") == [single(row, str(row["id"])).row for row in rows]


@pytest.mark.parametrize(
    ("line", "problem", "kept"),
    [
        ('{"id": "bad", "story": ["Anna", ""]}', "id 'bad': 'story': sentence 1 is empty", None),
        ('{"id": "u", "story": ["A"], "title": "\\ud800"}', "can't be written as JSON", None),
        (json.dumps({"id": "l", "story": ["Anna " * 240_000]}), "exceeds maximum", 3),
    ],
    ids=["invalid", "surrogate", "long"],
)
def test_rows_that_can_not_be_processed(entities, twins, tmp_path, line, problem, kept):
    """Invalid ones are reported before anything is written, others keep the rows before them."""
    twins.write_text(f"{twins.read_text()}{line}\n")
    done = entities()
    assert done.code == 1 and "line 4, id '" in done.err and problem in done.err
    part = tmp_path / "out.jsonl.part"
    assert (len(read_rows(part)) if part.exists() else None) == kept


def test_invalid_options(entities, monkeypatch):
    for arguments, code, problem in (
        (["--pipeline", "none_such"], 1, "Can't find model 'none_such'"),
        (["--names", "xx_XX"], 1, "'xx_XX' is not a locale of Faker"),
        (["--out", "none/out.jsonl"], 1, "does not exist"),
        (["--out", "twins.jsonl"], 2, "would be overwritten"),
        (["--out", "-", "--resume"], 2, "--resume needs --out FILE"),
    ):
        done = entities(*arguments)
        assert done.code == code and problem in done.err
    found = extras.version
    monkeypatch.setattr(extras, "version", lambda name: "0" if name == "spacy" else found(name))
    done = entities()
    assert done.code == 1 and "'narrative_twins[entities]' (spacy must be" in done.err

"""The command `narrative-twins make entities`."""

from functools import cache

import pytest

from narrative_twins import extras
from narrative_twins.data import load_story_twins

from support.command import run, with_defaults
from support.recognizers import save_pipeline
from support.rows import read_rows, write_rows

spacy = pytest.importorskip(
    "spacy", reason="spaCy is not installed: pip install narrative_twins[entities]"
)
ROWS = [
    {"id": "a", "story": ["Anna ran.", "She hid in Moscow."], "twin": ["Anna fled to Moscow."]},
    {"story": ["It rained."], "twin": ["Rain fell 🙂."], "note": {"of": ["Anna"]}},
    {"id": 3, "story": ["Vronsky {0}."], "twin": ["<b>Vronsky</b>"], "negative": ["Vronsky ran."]},
]
load_once = cache(spacy.load)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> str:
    return str(save_pipeline(tmp_path_factory.mktemp("spacy") / "pipeline"))


@pytest.fixture
def entities(pipeline, tmp_path, monkeypatch):
    monkeypatch.setattr(spacy, "load", load_once)
    write_rows(tmp_path / "twins.jsonl", ROWS)
    command = ["make", "entities", "twins.jsonl", "--out", "out.jsonl", "--pipeline", pipeline]
    return lambda *arguments: run(*with_defaults(command, *arguments), cwd=tmp_path)


def test_names_of_twins_are_replaced(entities, tmp_path):
    assert entities() == (0, "", "narrative-twins: names are replaced in 2 rows\n")
    a, b, c = read_rows(tmp_path / "out.jsonl")
    name = a["twin"][0].removesuffix(" fled to Location A.")
    assert name.istitle() and name != "Anna"
    assert a == ROWS[0] | {"twin": [f"{name} fled to Location A."]}
    assert b == {"id": "twins.jsonl:1", **ROWS[1]}
    assert c == ROWS[2] | {"id": "3", "twin": c["twin"]} and "Vronsky" not in c["twin"][0]
    before, after = (
        load_story_twins(str(tmp_path / file), split="train", cache_dir=str(tmp_path / "cache"))
        for file in ("twins.jsonl", "out.jsonl")
    )
    assert before["id"] == after["id"]
    facts = (tmp_path / "out.facts.yaml").read_text("utf-8")
    assert "- names replaced in: the twins only" in facts and str(tmp_path) not in facts
    assert entities("--names", "de_DE", "--seed", 1).code == 0
    assert read_rows(tmp_path / "out.jsonl")[0]["twin"] != a["twin"]


def test_invalid_options_and_rows(entities, tmp_path, monkeypatch):
    for arguments, code, problem in (
        (["--pipeline", "none_such"], 1, "install it by python -m spacy download none_such"),
        (["--names", "xx_XX"], 1, "'xx_XX' is no locale of Faker"),
        (["--out", "none/out.jsonl"], 1, "does not exist"),
    ):
        done = entities(*arguments)
        assert done.code == code and problem in done.err
    write_rows(tmp_path / "twins.jsonl", [ROWS[0], {"id": "bad", "story": ["Anna " * 240_000]}])
    done = entities("--out", "bad.jsonl")
    assert done.code == 1 and "line 2, id 'bad': " in done.err and "exceeds" in done.err
    write_rows(tmp_path / "twins.jsonl", ROWS[1:2])
    assert "0 rows; is there a twin, and does the pipeline recognize entities?" in entities().err
    monkeypatch.setattr(extras, "version", lambda name: "0")
    assert "pip install 'narrative_twins[entities]'" in entities().err

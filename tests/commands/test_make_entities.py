"""The command `narrative-twins make entities`."""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from pathlib import Path

import pytest

from narrative_twins.commands.cli import main
from narrative_twins.data import load_story_twins
from narrative_twins.files import read_settings
from narrative_twins.making.names import read_names
from narrative_twins.making.substitution import EntitySubstitution

from support.processes import COMMAND, run_command
from support.recognizers import recognizer, save_pipeline

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


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> str:
    return str(save_pipeline(tmp_path_factory.mktemp("spacy") / "pipeline"))


@pytest.fixture
def twins(tmp_path) -> Path:
    path = tmp_path / "twins.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def make(twins, pipeline, tmp_path, capsys):
    """Run the command in this process; returns exit code and errors."""

    def call(*arguments, rows=twins, out=tmp_path / "out.jsonl", pipeline=pipeline):
        code = main(
            [
                "make",
                "entities",
                *map(str, [rows, "--out", out, "--pipeline", pipeline, *arguments]),
            ]
        )
        return code, capsys.readouterr().err

    return call


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def test_installed_command(twins, pipeline, tmp_path):
    out = tmp_path / "out.jsonl"
    done = run_command(COMMAND, "make", "entities", twins, "--out", out, "--pipeline", pipeline)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert (
        done.stderr
        == "2 people, 1 place, 1 organization and 0 other entities replaced in 3 rows, 1 without"
        " any\n"
    )
    a, b, c = rows_of(out)
    name = a["twin"][0].removesuffix(" fled to Location A.")
    assert name.istitle() and name != "Karenina"
    assert a == ROWS[0] | {"twin": [f"{name} fled to Location A."]}
    assert b == {"id": "twins.jsonl:1", **ROWS[1]}
    other = c["twin"][0].removeprefix("<b>").removesuffix("</b> sat at Organization A.")
    assert other.istitle() and other != "Vronsky"
    assert c == ROWS[2] | {"twin": [f"<b>{other}</b> sat at Organization A."]}
    loaded = [
        load_story_twins(str(path), split="train", cache_dir=str(tmp_path / "cache"))
        for path in (twins, out)
    ]
    assert loaded[0]["id"] == loaded[1]["id"]


def test_same_names_in_all_texts(make, tmp_path):
    code, errors = make("--same-names")
    assert (code, errors) == (
        0,
        (
            "2 people, 1 place, 1 organization and 0 other entities replaced in 3 rows, 1 without"
            " any\n"
        ),
    )
    a, b, c = rows_of(tmp_path / "out.jsonl")
    name = a["story"][0].removesuffix(" ran.")
    assert name.istitle()
    assert a == {
        "id": "a",
        "story": [f"{name} ran.", "She hid in Location A."],
        "twin": [f"{name} fled to Location A."],
    }
    assert b == {"id": "twins.jsonl:1", **ROWS[1]}
    other = c["negative"][0].removesuffix(" ran.")
    assert other.istitle()
    expected = {
        "id": 3,
        "story": [f"{other} {{0}} sat."],
        "twin": [f"<b>{other}</b> sat at Organization A."],
    }
    assert c == expected | {"negative": [f"{other} ran."]}


def test_naming_is_told(make, tmp_path):
    """In the settings of the run and on the card; a run is not resumed with the other naming."""
    for option, words in (
        ([], "in the twins only, by names that occur nowhere else in the row"),
        (["--same-names"], "in all texts of a row, by the same new names"),
    ):
        make(*option)
        assert read_settings(str(tmp_path / "out.jsonl.run"))["names replaced"] == words
        card = (tmp_path / "out.card.md").read_text()
        assert f"Names are replaced {words}." in card and f"- names replaced: {words}" in card
    code, errors = make("--resume")
    assert code == 2 and "can't resume" in errors and "was started with names replaced" in errors


def test_rows_without_twins_are_told(make, twins):
    twins.write_text(json.dumps({"story": ["Anna ran."]}) + "\n" + json.dumps(ROWS[0]) + "\n")
    assert "1 row has no twin, so no names are replaced there; --same-names replaces" in make()[1]
    assert "no twin" not in make("--same-names")[1]


def test_options(make, tmp_path):
    assert make("--names", "de_DE", "--seed", 1)[0] == 0
    name = rows_of(tmp_path / "out.jsonl")[0]["twin"][0].removesuffix(" fled to Location A.")
    assert name in read_names("de_DE") and read_settings(str(tmp_path / "out.jsonl.run"))[
        "given names"
    ].startswith("de_DE of Faker ")
    texts = set()
    for seed in range(8):
        assert make("--seed", seed)[0] == 0
        texts.add((tmp_path / "out.jsonl").read_text())
    assert len(texts) > 4


def test_standard_output(make, twins, pipeline, tmp_path, capsys):
    make()
    assert main(["make", "entities", str(twins), "--pipeline", pipeline, "--out", "-"]) == 0
    assert capsys.readouterr().out == (tmp_path / "out.jsonl").read_text()
    assert not Path("-").exists()


def test_same_output_again_and_for_other_formats(make, twins, tmp_path):
    make()
    first = (tmp_path / "out.jsonl").read_bytes()
    make()
    assert (tmp_path / "out.jsonl").read_bytes() == first
    keyed = tmp_path / "twins.json"
    keyed.write_text(json.dumps({"a": {**ROWS[0], "id": None}}))
    assert make(rows=keyed, out=tmp_path / "keyed.jsonl")[0] == 0
    assert rows_of(tmp_path / "keyed.jsonl") == rows_of(tmp_path / "out.jsonl")[:1]


def test_resume(make, tmp_path):
    make()
    out, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    complete = out.read_bytes()
    lines = complete.splitlines(keepends=True)
    for kept, message in (
        (
            b"",
            (
                "2 people, 1 place, 1 organization and 0 other entities replaced in 3 rows, 1"
                " without any"
            ),
        ),
        (
            lines[0] + lines[1][:9],
            (
                "1 person, 0 places, 1 organization and 0 other entities replaced in 2 rows, 1"
                " without any; 1 row was done"
            ),
        ),
        (
            complete,
            (
                "0 people, 0 places, 0 organizations and 0 other entities replaced in 0 rows, 0"
                " without any; 3 rows were"
            ),
        ),
    ):
        out.rename(part)
        part.write_bytes(kept)
        (tmp_path / "out.jsonl.run").rename(tmp_path / "out.jsonl.part.run")
        code, errors = make("--resume")
        assert (code, out.read_bytes(), part.exists()) == (0, complete, False)
        assert errors.startswith(message)
    assert make("--resume")[0] == 0 and out.read_bytes() == complete


def test_invalid_resumes(make, twins, tmp_path):
    make()
    out = tmp_path / "out.jsonl"
    complete = out.read_bytes()
    for arguments in (["--seed", 7], ["--names", "de_DE"]):
        code, errors = make("--resume", *arguments)
        assert code == 2 and "can't resume" in errors and "was started with" in errors
    lines = complete.splitlines(keepends=True)
    for other in (lines[1] + lines[0], complete + lines[0], b"[]\n", b"x\n", b'{"story": []}\n'):
        out.write_bytes(other)
        code, errors = make("--resume")
        assert code == 2 and "can't resume" in errors and " is not " in errors
        assert out.read_bytes() == other


@pytest.fixture
def interrupted(monkeypatch):
    """Interrupt runs after a number of rows."""

    def after(count: int) -> None:
        def some(self, rows, *arguments):
            yield from islice(real(self, rows, *arguments), count)
            raise KeyboardInterrupt

        monkeypatch.setattr(EntitySubstitution, "pipe", some)

    real = EntitySubstitution.pipe
    after.never = lambda: monkeypatch.setattr(EntitySubstitution, "pipe", real)
    return after


def test_interrupted_run_keeps_finished_rows(make, tmp_path, monkeypatch, interrupted):
    make()
    complete = (tmp_path / "out.jsonl").read_bytes()
    (tmp_path / "out.jsonl").unlink()
    interrupted(1)
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    code, errors = make()
    part = (tmp_path / "out.jsonl.part").read_bytes()
    assert code == 130 and "continue with --resume" in errors
    assert synced == [len(part)] and complete.startswith(part)
    interrupted.never()
    assert make("--resume")[0] == 0
    assert (tmp_path / "out.jsonl").read_bytes() == complete
    assert [path.name for path in tmp_path.glob("out.jsonl?*")] == ["out.jsonl.run"]


def test_facts_stay_until_the_next_run_is_complete(make, tmp_path, interrupted):
    make()
    facts, card = ((tmp_path / name).read_text() for name in ("out.facts.yaml", "out.card.md"))
    interrupted(1)
    assert make("--seed", 7)[0] == 130
    assert [(tmp_path / name).read_text() for name in ("out.facts.yaml", "out.card.md")] == [
        facts,
        card,
    ]
    interrupted.never()
    # The interrupted run has seed 7, unlike the complete file beside it.
    code, errors = make("--resume")
    assert code == 2 and "was started with seed 7 (now 0)" in errors
    assert make("--seed", 7, "--resume")[0] == 0
    assert "- seed: 7" in (tmp_path / "out.card.md").read_text()


@pytest.fixture(scope="module")
def other_pipeline(tmp_path_factory) -> Path:
    return save_pipeline(tmp_path_factory.mktemp("spacy") / "other")


def test_other_options_are_refused_even_if_no_row_differs(
    make, twins, tmp_path, interrupted, other_pipeline
):
    # The finished row has no people, so other names change nothing in it.
    twins.write_text("".join(json.dumps(row) + "\n" for row in ({"story": ["In Moscow."]}, *ROWS)))
    interrupted(1)
    assert make()[0] == 130
    interrupted.never()
    started = (tmp_path / "out.jsonl.part").read_text()
    for other in (["--seed", 7], ["--names", "de_DE"]):
        code, errors = make("--resume", *other)
        assert code == 2 and "was started with" in errors
    code, errors = make("--resume", pipeline=str(other_pipeline))
    assert code == 2 and 'was started with names recognized by "pipeline' in errors
    assert (tmp_path / "out.jsonl.part").read_text() == started
    assert make("--resume")[0] == 0


def test_counts_in_the_card(make, tmp_path, interrupted):
    make()
    card = (tmp_path / "out.card.md").read_text()
    counts = (
        "2 people, 1 place, 1 organization and 0 other entities, counted separately in each row."
    )
    assert f"other names in 2 of 3 rows: {counts}" in card
    # A complete run has nothing to add.
    assert make("--resume")[0] == 0
    assert (tmp_path / "out.card.md").read_text() == card
    interrupted(1)
    make()
    interrupted.never()
    make("--resume")
    rest = (
        "in the last 2 of them 1 person, 0 places, 1 organization and 0 other entities, counted"
        " separately in each"
    )
    assert f"other names in 2 of 3 rows: {rest}" in (tmp_path / "out.card.md").read_text()
    (tmp_path / "out.jsonl").rename(tmp_path / "out.jsonl.part")
    (tmp_path / "out.jsonl.run").rename(tmp_path / "out.jsonl.part.run")
    make("--resume")
    assert "other names in 2 of 3 rows.\n" in (tmp_path / "out.card.md").read_text()


def test_rows_are_processed_in_batches(make, twins, tmp_path, monkeypatch):
    rows = [{"id": number, "story": ["Anna ran."], "twin": ["Anna fled."]} for number in range(70)]
    twins.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes, real = [], spacy.language.Language.pipe

    def pipe(self, texts, *arguments, **options):
        texts = list(texts)
        sizes.append(len(texts))
        yield from real(self, texts, *arguments, **options)

    monkeypatch.setattr(spacy.language.Language, "pipe", pipe)
    assert make()[0] == 0
    # Loading the pipeline processes its patterns first.
    assert sizes[-3:] == [64, 64, 12], "the texts of 32, 32 and 6 rows"
    batched = rows_of(tmp_path / "out.jsonl")
    assert [row["id"] for row in batched] == list(range(70))
    single = EntitySubstitution(recognizer())
    assert batched == [single(row, str(row["id"])).row for row in rows]


def test_rows_before_an_unreadable_one_are_kept(make, twins, tmp_path):
    with open(twins, "a") as file:
        file.write(json.dumps({"id": "long", "story": ["Anna " * 240_000]}) + "\n")
    code, errors = make()
    assert code == 1 and "row 3 (line 4), id 'long': " in errors and "exceeds maximum" in errors
    assert len((tmp_path / "out.jsonl.part").read_text().splitlines()) == 3


def test_invalid_row_is_reported_first(make, twins, tmp_path):
    with open(twins, "a") as file:
        file.write('{"id": "bad", "story": ["Anna", ""]}\n')
    code, errors = make(pipeline="none_such")
    assert code == 1 and "row 3 (line 4), id 'bad': 'story': sentence 1 is empty" in errors
    assert not list(tmp_path.glob("out*"))


def test_rows_that_cannot_be_written(make, twins):
    twins.write_text('{"story": ["Anna"], "title": "\\ud800"}\n')
    code, errors = make()
    assert code == 1 and "row 0 (line 1), id 'twins.jsonl:0': can't be written as JSON" in errors


def test_invalid_options(make, twins, tmp_path, monkeypatch):
    (folder := tmp_path / "folder").mkdir()
    for wrong, problem in (
        (dict(pipeline="none_such"), "the spaCy pipeline 'none_such' can't be loaded"),
        (dict(rows=tmp_path / "none.jsonl"), "none.jsonl"),
        (dict(out=tmp_path / "none" / "out.jsonl"), "does not exist"),
        (
            dict(rows=tmp_path / "twins.txt"),
            "twins.txt: unknown format; use .jsonl, .ndjson, .json, .csv, .jsonl.gz",
        ),
        (dict(rows=folder), "folder: unknown format"),
        (dict(rows="-"), "-: unknown format"),
    ):
        code, errors = make(**wrong)
        assert code == 1 and problem in errors
    for arguments in (dict(out=twins), dict(out="-")):
        with pytest.raises(SystemExit, match="2"):
            make("--resume", **arguments)
    code, errors = make("--names", "xx_XX")
    assert code == 1 and "'xx_XX' is not a locale of Faker" in errors
    monkeypatch.setitem(sys.modules, "spacy", None)
    code, errors = make()
    assert code == 1 and "pip install narrative_twins[entities]" in errors


def test_pipeline_that_finds_nothing(make, twins):
    twins.write_text(json.dumps(ROWS[1]) + "\n")
    assert make() == (
        0,
        (
            "0 people, 0 places, 0 organizations and 0 other entities replaced in 1 row, 1 without"
            " any; does the pipeline recognize entities?\n"
        ),
    )

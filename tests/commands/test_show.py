"""`narrative-twins show`: saved scores in all formats, without an encoder; files that are no
scores."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

from narrative_twins import Story, StorySalience, show
from narrative_twins.commands.cli import main
from narrative_twins.show.formats import FORMATS, write_results

from support.processes import run_python
from support.results import write_report

TEXTS = {
    "a": "Nadia ran. It rained.\n\nThe mill <b>burned</b>. Nobody knew.",
    None: "He left. She & I stayed.",
}
OPERATIONS = ["deletion", "summarization"]


def results():
    found = []
    for index, (name, text) in enumerate(TEXTS.items()):
        story = Story.parse({"id": name, "text": text}, 2)
        scores = {
            "deletion": [0.5, 0.1, 0.2, 0.3][: len(story)],
            "summarization": [0.1, 0.9, 0.2, 0.8][: len(story)],
        }
        found.append(StorySalience(story, scores, 512, index * 7, None, index))
    return found


def write(path, form, found=None):
    with open(path, "wb") as file:
        for piece in write_results(found or results(), form, OPERATIONS):
            file.write(piece.encode() if isinstance(piece, str) else piece)
    return path


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = main(["show", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def scores(tmp_path):
    return write(tmp_path / "scores.jsonl", "jsonl")


def data(found):
    return [result.to_dict() for result in found]


@pytest.mark.parametrize("form", ["jsonl", "json", "report"])
def test_everything_that_has_scores_is_read(form, tmp_path, run):
    path = tmp_path / f"scores.{form}"
    write_report(path, results(), top=1) if form == "report" else write(path, form)
    found = list(show.read_results([path]))
    assert data(found) == data(results())
    assert [result.name for result in found] == ["a", "story 2"]
    code, out, err = run(path, "--format", "jsonl")
    assert (code, err) == (0, "")
    assert list(map(json.loads, out.splitlines())) == data(results())


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "json"])
def test_formats_are_those_of_score(form, scores, tmp_path, run):
    """Byte for byte, from JSON Lines."""
    write(tmp_path / "expected", form)
    assert run(scores, "-f", form, "-o", tmp_path / "shown") == (0, "", "")
    assert (tmp_path / "shown").read_bytes() == (tmp_path / "expected").read_bytes()


def test_reports(scores, tmp_path, run):
    code, _, err = run(scores, "--format", "report", "--out", tmp_path / "r")
    assert code == 0 and "has 2 stories" in err
    assert data(show.read_results([tmp_path / "r"])) == data(results())
    with pytest.raises(SystemExit):
        run(scores, "--format", "report")


def test_reports_of_damaged_scores_leave_nothing_behind(scores, tmp_path, run):
    scores.write_text(scores.read_text() + scores.read_text() + "{}\n")
    code, _, err = run(scores, "--format", "report", "--out", tmp_path / "r")
    assert code == 1 and "line 5: this is no result" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.jsonl"]


def test_extracts(scores, run):
    assert run(scores, "--format", "extract")[1] == "a\nIt rained.\n\nstory 2\nShe & I stayed.\n"
    assert run(scores, "--format", "extract", "--share", "0.5")[1].startswith(
        "a\nIt rained.\nNobody knew.\n"
    )
    assert run(scores, "--format", "extract", "--top", "2", "--operations", "deletion")[
        1
    ].startswith("a\nNadia ran.\nNobody knew.\n")


def test_the_extract_of_one_story_is_text_alone(tmp_path, run):
    path = write(tmp_path / "one.jsonl", "jsonl", results()[:1])
    assert run(path, "--format", "extract", "--share", "0.5")[1] == "It rained.\nNobody knew.\n"


def test_top_and_operations(scores, run):
    _, out, _ = run(scores, "-f", "csv", "--top", "1", "--operations", "deletion")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["sentence"] for row in rows] == ["Nadia ran.", "He left."]
    assert "summarization" not in rows[0]


def test_stories_with_other_operations(tmp_path, run):
    found = results()
    path = write(
        tmp_path / "mixed.jsonl",
        "jsonl",
        [StorySalience(found[0].story, {"deletion": [1.0] * 4}), found[1]],
    )
    code, out, err = run(path, "-f", "csv", "-o", tmp_path / "out.csv")
    assert code == 1 and "story 2 has scores by deletion, summarization" in err
    assert not (tmp_path / "out.csv").exists()
    assert run(path, "-f", "csv", "--operations", "deletion")[0] == 0
    code, _, err = run(path, "--operations", "summarization")
    assert code == 1 and "a: operation 'summarization' was not scored; choose from deletion" in err


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_standard_input(form, tmp_path, run, monkeypatch):
    text = write(tmp_path / "scores", form).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n" + text)))
    assert len(run("-", "-f", "jsonl")[1].splitlines()) == 2


GOOD = json.dumps(results()[0].to_dict())


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "s.jsonl",
            '{"text": "Nadia ran."}\n',
            "s.jsonl, line 1: this is no result: it has no 'sentences'",
        ),
        ("s.jsonl", f'{GOOD}\n{{"id": \n', "s.jsonl, line 2: is not valid JSON"),
        ("s.json", '[{"text": "Nadia ran."}]', "s.json, item 0: this is no result"),
        ("s.txt", "Nadia ran.", "s.txt has no scores that can be read; saved scores are"),
        ("s.png", "\x89PNG", "s.png has no scores that can be read"),
        ("s.html", "<!doctype html>\n<p>Nadia ran.</p>", "s.html has no scores that can be read"),
        ("s.jsonl", "", "s.jsonl has no scores"),
    ],
)
def test_files_that_are_no_scores(name, content, problem, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content, encoding="utf-8")
    code, out, err = run(name, "-f", "csv", "-o", "out.csv")
    assert (code, out) == (1, "")
    assert problem in err and len(err.splitlines()) == 1
    assert not (tmp_path / "out.csv").exists()


def test_other_problems(tmp_path, run, scores, capsys):
    (tmp_path / "folder").mkdir()
    assert "No such file" in run(tmp_path / "folder")[2]
    assert "No such file" in run(tmp_path / "missing.jsonl")[2]
    for wrong, problem in (
        (["--share", "0.5"], "--share needs --format extract"),
        (["--share", "0", "-f", "extract"], "'0' is not a number above 0"),
        (["--share", "0.5", "--top", "1", "-f", "extract"], "use one of them"),
        (["--out", scores], "would be overwritten"),
    ):
        with pytest.raises(SystemExit):
            run(scores, *wrong)
        assert problem in capsys.readouterr().err


def test_nothing_large_is_imported(scores, tmp_path):
    code = (
        "import sys; from narrative_twins.commands.cli import main; assert main(['show',"
        f" {str(scores)!r}, '--format', 'html', '--out', {str(tmp_path / 'page.html')!r}]) == 0;"
        " print(sorted({'torch', 'transformers', 'matplotlib', 'pandas', 'datasets'} &"
        " set(sys.modules)))"
    )
    assert run_python("-c", code).strip() == "[]"

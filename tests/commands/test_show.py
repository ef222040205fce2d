"""`narrative-twins show`: saved scores in all formats, without an encoder; files that are not
scores."""

import csv
import io
import json
import re
import subprocess
from functools import partial

import pytest

from narrative_twins import Story, StorySalience, show
from narrative_twins.books import result as book_results
from narrative_twins.show.formats import write_results

from support.command import run
from support.processes import COMMAND, LIMIT, started

shown = partial(run, "show")


def results(**scores):
    """Two results, with other scores of the first one."""
    text = "Nadia ran. It rained.\n\nThe <b>mill</b> burned. Nobody knew."
    first = Story.parse({"id": "a", "text": text}, 2)
    second = Story.parse("He left. She & I stayed.", 2)
    scores = scores or {"deletion": [0.5, 0.1, 0.2, 0.3], "summarization": [0.1, 0.9, 0.2, 0.8]}
    others = {"deletion": [0.5, 0.1], "summarization": [0.1, 0.9]}
    return [StorySalience(first, scores), StorySalience(second, others, 512, 7, None, 1)]


def write(path, form, found=None):
    pieces = write_results(found or results(), form)
    path.write_text("".join(pieces), "utf-8")
    return path


@pytest.fixture
def scores(tmp_path):
    return write(tmp_path / "scores.jsonl", "jsonl")


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_saved_scores_are_read(form, tmp_path):
    path = write(tmp_path / f"scores.{form}", form)
    assert (found := list(show.read_results([path]))) == results()
    assert [result.name for result in found] == ["a", "story 2"]
    done = shown(path, "--format", "jsonl")
    assert (done.code, done.err) == (0, "") and done.rows == results()
    if form == "jsonl":
        assert len(shown("-", "-f", "jsonl", input=b"\n" + path.read_bytes()).rows) == 2


def test_extracts_top_and_operations(scores, tmp_path):
    extract = partial(shown, scores, "--format", "extract")
    assert extract().out == "a\nIt rained.\n\nstory 2\nShe & I stayed.\n"
    assert extract("--share", "0.5").out.startswith("a\nIt rained.\nNobody knew.\n")
    by_deletion = extract("--top", "2", "--operations", "deletion")
    assert by_deletion.out.startswith("a\nNadia ran.\nNobody knew.\n")
    one = write(tmp_path / "one.jsonl", "jsonl", results()[:1])
    assert shown(one, "-f", "extract", "--share", 0.5).out == "It rained.\nNobody knew.\n"
    done = shown(scores, "-f", "csv", "--top", "1", "--operations", "deletion")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["sentence"] for row in rows] == ["Nadia ran.", "He left."]
    assert "summarization" not in rows[0]


def test_stories_with_other_operations(tmp_path):
    path = write(tmp_path / "mixed.jsonl", "jsonl", results(deletion=[1.0] * 4))
    done = shown(path, "-f", "csv", "-o", tmp_path / "out.csv")
    assert done.code == 1 and "story 2 has scores by deletion, summarization" in done.err
    assert not (tmp_path / "out.csv").exists()
    assert shown(path, "-f", "csv", "--operations", "deletion").code == 0
    done = shown(path, "--operations", "summarization")
    assert done.code == 1 and "'summarization' was not scored; choose from deletion" in done.err


GOOD = json.dumps(results()[0].json())


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("s.jsonl", '{"text": "Nadia ran."}\n', "s.jsonl, line 1: this is not a result: it has no"),
        ("s.jsonl", f'{GOOD}\n{{"id": \n', "s.jsonl, line 2: is not valid JSON"),
        ("s.json", '[{"text": "Nadia ran."}]', "s.json, item 0: this is not a result"),
        ("s.jsonl", "", "there are no scores in the input"),
    ],
)
def test_files_that_are_no_scores(name, content, problem, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8")
    done = shown(name, "-f", "csv", "-o", "out.csv", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert problem in done.err and len(done.err.splitlines()) == 1
    assert not (tmp_path / "out.csv").exists()


def test_a_closed_pipe_is_not_an_error(scores):
    scores.write_text(scores.read_text() * 2000)
    command = [COMMAND, "show", scores, "-f", "jsonl"]
    with started(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait(timeout=LIMIT) == 0


def test_errors_of_the_system_have_no_number(tmp_path, scores):
    done = shown(scores, "--format", "json", "--out", tmp_path / ("a" * 300))
    assert done.code == 1 and re.search(r"^narrative-twins: \S*aaa\S*: File name too", done.err)


@pytest.mark.parametrize("content", ["\0" * 100, '{"chapters": []' + " " * 100, "[" * 100])
def test_the_kind_of_a_file_is_found_in_bounded_memory(content, monkeypatch, tmp_path):
    monkeypatch.setattr("narrative_twins.stories.reading.MAX_LINE", 50)
    (tmp_path / "endless").write_text(content)
    assert not book_results.is_book_salience(tmp_path / "endless")
    with pytest.raises(ValueError, match="endless: is a line of more than 50 bytes"):
        book_results.read_book_salience(tmp_path / "endless")


HOSTILE = "a\x1b[31m\x9b2J\x7f\u202eb\u2066"


@pytest.mark.parametrize("form", ["text", "csv", "jsonl", "json", "extract"])
def test_no_control_characters_reach_a_terminal(form, tmp_path):
    """Those of a story, its name and an operation; files keep them."""
    row = results()[1].json() | {"id": HOSTILE}
    row["scores"] = {HOSTILE: [0.5, 0.25]}
    row["sentences"] = [HOSTILE, "Nadia ran."]
    row["spans"] = [[0, len(HOSTILE)], [len(HOSTILE) + 1, len(HOSTILE) + 11]]
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    seen = shown(tmp_path / "a.jsonl", "-f", form, terminal=True)
    codes = r"\x1b\[[\d;]*m" if form == "text" else "(?!)"
    left = re.sub(codes, "", seen.out.replace("\x1b[31m", "!"))
    assert seen.code == 0 and not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f!\u202e\u2066]", left)
    assert "\ufffd2J" in left
    if form == "csv":
        assert shown(tmp_path / "a.jsonl", "-f", "csv", "-o", tmp_path / "a.csv").code == 0
        assert HOSTILE in (tmp_path / "a.csv").read_text("utf-8")


def test_errors_have_no_control_characters(tmp_path):
    done = shown(tmp_path / HOSTILE, terminal=True)
    assert done.code == 1 and "a\ufffd[31m" in done.err and "\x1b" not in done.err

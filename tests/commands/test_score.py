"""`narrative-twins score`: formats, errors, resuming and interruptions."""

import csv
import io
import json
import re
from functools import partial

import pytest

from narrative_twins import score_stories
from narrative_twins.commands import score as score_module
from narrative_twins.writing import JsonlLog

from support.command import run
from support.rows import read_rows, write_rows
from support.scoring import assert_same_result

OMAR = "Omar cleaned the windows of a tower. A man cried. Omar wrote a word in the foam."


@pytest.fixture
def score(bert_folder):
    return partial(run, "score", "--model", bert_folder, "--device", "cpu", "--dtype", "float32")


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "omar.txt"
    path.write_text(OMAR)
    return path


@pytest.fixture
def stories(tmp_path):
    nadia = {"id": "b", "sentences": ["Nadia ran.", "It rained."], "windows": 2}
    return write_rows(tmp_path / "stories.jsonl", [{"id": "a", "text": OMAR}, nadia])


def test_data_has_the_results_of_the_engine(score, stories, bert_folder):
    rows = score(stories, "-f", "jsonl").rows
    found = score_stories(read_rows(stories), bert_folder)
    for row, result in zip(rows, found, strict=True):
        assert_same_result(row, result.json())
    assert json.loads(score(stories, "-f", "json").out) == rows
    done = score(stories, "-f", "csv", "--operations", "summarization,deletion")
    cells = list(csv.DictReader(io.StringIO(done.out)))
    assert list(cells[0])[-2:] == ["summarization", "deletion"]
    places = ["|".join((row["story"], row["index"], row["window"])) for row in cells]
    assert places == ["a|0|0", "a|1|0", "a|2|0", "b|0|0", "b|1|1"]
    assert [float(row["deletion"]) for row in cells[:3]] == rows[0]["scores"]["deletion"]


def test_text_and_the_terminal(score, story):
    done = score("-", input=OMAR)
    assert done.code == 0 and done.err == "" and "★" in done.out
    assert all(sentence in done.out for sentence in ("Omar cleaned the", "A man cried"))
    wide = score(story, "--top", 1, terminal=True, width=150)
    assert wide.code == 0, wide.err
    assert max(map(len, wide.out.splitlines())) > 150 and "\x1b[" in wide.out
    assert sum(text in wide.out for text in OMAR.split(". ")) == 1, wide.out
    assert "1.00/1.00" in wide.err
    assert score(story, "-f", "jsonl", "--quiet", terminal=True).err == ""


def test_options_reach_the_engine(score, story, tmp_path):
    options = ("--windows", "2,1", "--operations", "deletion", "--top", 2)
    (row,) = score(story, "-f", "jsonl", *options).rows
    assert row["windows"] == [[0, 2], [2, 3]] and list(row["scores"]) == ["deletion"]
    assert [one["score"] for one in row["top"]] == sorted(row["scores"]["deletion"])[:0:-1]
    (row,) = score(story, "-f", "jsonl", "--fast", "--pooling", "mean").rows
    assert row["approximate"] == "one-pass"
    assert score(story, "-f", "jsonl", "--fast").rows == [row]
    assert len(score(story, "-f", "extract", "--share", 0.6).out.splitlines()) == 2
    (tmp_path / "verse.txt").write_text("Chapter 1\n\nThe sea was grey,\nthe sky was grey.")
    verse = [tmp_path / "verse.txt", "-f", "jsonl", "--split", "lines"]
    for options, sentences in (([], 2), (["--score-headings"], 3)):
        assert len(score(*verse, *options).rows[0]["sentences"]) == sentences


def test_exact_scoring_of_long_files_names_what_is_faster(score, story, monkeypatch):
    monkeypatch.setattr(score_module, "_LONG", 10)
    advice = "narrative-twins: exact scores of long texts take long; --fast is quicker"
    assert advice in score(story, terminal=True).err
    for options in (["--quiet"], ["--fast"]):
        assert advice not in score(story, *options, terminal=True).err
    assert advice not in score(story).err


def test_invalid_stories_are_reported_and_skipped(score, story, tmp_path):
    """With their file and line; the others keep their index."""
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text('"Nadia ran. It rained."\n{"text": \n{"text": ""}\n"Omar left. It snowed."\n')
    done = score(tmp_path / "missing.txt", mixed, story, "-f", "csv", "--operations", "deletion")
    names = [row["story"] for row in csv.DictReader(io.StringIO(done.out))]
    assert done.code == 1 and names == ["0", "0", "3", "3", *[str(story)] * 3]
    missing, line_2, line_3 = done.err.splitlines()
    assert "missing.txt: can't be read (No such file" in missing
    assert "mixed.jsonl, line 2 (row 1): is not valid JSON" in line_2
    assert "mixed.jsonl, line 3 (row 2): the story is empty" in line_3
    empty = score("-", "-f", "csv", "--input-format", "jsonl", input="\n")
    assert empty == (0, "", "narrative-twins: there is no story in the input\n")


def test_an_encoder_that_can_not_be_loaded_is_one_line(story):
    done = run("score", story, "--model", "/nowhere/x")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "x' (no folder, so taken as a Hub id) can't be" in done.err


def test_the_name_of_the_output_implies_its_format(score, story, tmp_path):
    for name, start in (
        ("a.html", b"<!doctype html>"),
        ("a.CSV", b"file,row,story,"),
        ("notes", b"story 1 of omar.txt:"),
    ):
        assert score(story, "--out", tmp_path / name) == (0, "", "")
        assert (tmp_path / name).read_bytes().startswith(start)
    assert score(story, "--out", tmp_path / "a.html", "--format", "csv").code == 0
    assert (tmp_path / "a.html").read_bytes().startswith(b"file,row,story,"), (
        "it overrides the suffix"
    )


def test_standard_output_of_other_encodings(score):
    scored = partial(score, "-", input="Kagerō ran — far. It rained. ★", encoding="cp1252")
    assert "Kager? ran" in scored().out
    note = r"\d characters? that standard output can't write \(cp1252\) became \?; --out FILE"
    assert re.search(note, scored().err)
    assert re.search(r"\* 0\.\d{3} 8", scored().out), "a star, and the highest bar"
    for form in ("jsonl", "csv"):
        assert "Kagerō ran — far." in scored("-f", form).out


def test_cells_of_csv_are_no_formulas(score):
    signs = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "＝1", "＋1", "－1", "＠A1"]
    texts = [*signs, "Nadia ran.", "a=1"]
    source = json.dumps({"id": "=1", "sentences": texts})
    options = ["--input-format", "jsonl", "-f", "csv", "--operations", "deletion"]
    done = score("-", *options, input=source)
    _, *rows = csv.reader(io.StringIO(done.out, newline=""))
    assert [row[7] for row in rows] == [*(f"'{text}" for text in signs), "Nadia ran.", "a=1"]
    assert {row[2] for row in rows} == {"'=1"}
    assert re.fullmatch(r"-?\d\.\d+(e-\d+)?", rows[0][8]), "numbers stay numbers"


def test_truncated_stories_are_named_by_file_and_line(score, tmp_path):
    path = tmp_path / "stories.jsonl"
    long = json.dumps({"text": "Nadia ran and ran and ran. " * 20})
    path.write_text(f'{{"text": "He left."}}\n{{"text": ""}}\n{long}\n{long}\n')
    arguments = [path, "-f", "jsonl", "--context-tokens", 40]
    done = score(*arguments)
    warnings = [line for line in done.err.splitlines() if "than the 40 tokens" in line]
    assert done.code == 1 and len(done.rows) == 3 and len(done.err.splitlines()) == 2
    assert (
        len(warnings) == 1 and "stories.jsonl, line 3 (row 2): the story is longer" in warnings[0]
    )
    assert len(score(*arguments, "--on-truncation", "ignore").err.splitlines()) == 1
    done = score(*arguments, "--on-truncation", "error")
    assert len(done.rows) == 1 and "stories.jsonl, line 4 (row 3): the story is longer" in done.err


def test_a_book_is_recognized_once(score, tmp_path):
    begin = "*** START OF THE PROJECT GUTENBERG EBOOK NINE TALES ***"
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{begin}\n\nNadia ran.")
    (hint,) = score(tmp_path / "a.txt", tmp_path / "b.txt", "-f", "csv").err.splitlines()
    assert f"{tmp_path / 'a.txt'}: seems to be a book of Project Gutenberg" in hint
    assert "narrative-twins book FILE" in hint


def test_an_interrupted_run_is_resumed_with_the_same_stories_only(score, tmp_path, monkeypatch):
    """Invalid stories are reported again, equal ones are scored as often as they occur. Which
    options differ, tests/test_resuming.py tests."""
    source, out, log = (tmp_path / name for name in ("in.jsonl", "out.jsonl", "out.jsonl.part"))
    ran, rained, content = '"Nadia ran."\n', '"It rained."\n', '"Nadia ran."\n""\n"Nadia ran."\n'
    source.write_text(content)
    with monkeypatch.context() as patch:
        patch.setattr(JsonlLog, "complete", lambda log, path: None)
        score(source, "-o", out)
    settings, *results = log.read_text().splitlines(keepends=True)
    before = settings + "".join(results) + '{"half": '
    resume = partial(score, source, "-o", out, "--resume")
    for other in (rained, rained + ran + ran, ran + rained):
        log.write_text(before)
        source.write_text(other)
        done = resume()
        assert done.code == 2 and "use the same input" in done.err
    source.write_text(f'{content}"\u0301"\n{rained}')
    log.write_text(f'{settings}{{"an": "other"}}\n')
    assert "line 2 is not a result of this command" in resume().err
    log.write_text(before)
    done = resume("--batch-size", 1)
    assert done.code == 1 and done.err.count("in.jsonl, line") == 2
    rows = [row["sentences"] for row in read_rows(out)]
    assert rows == [["Nadia ran."], ["Nadia ran."], ["It rained."]] and not log.exists()

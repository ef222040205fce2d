"""`narrative-twins score --level` and `narrative-twins extract`: a book from a file to its scores
and extracts."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest

from narrative_twins import BookSalience, StoryEncoder, score_book
from narrative_twins.commands.cli import main
from narrative_twins.salience.books.result import read_book_salience

from support.processes import COMMAND, LIMIT, run_command, started, wait_until
from support.tales import TALE

LEVELS = "chapter,scene,sentence"


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "tale.txt"
    chapters = []
    for number, chapter in enumerate(TALE.chapters):
        parts = [
            f"{'* * *' + chr(10) * 2 if i in chapter.breaks else ''}"
            for i in range(len(chapter.paragraphs))
        ]
        paragraphs = [
            mark + TALE.text[slice(*span)]
            for mark, span in zip(parts, chapter.paragraphs, strict=True)
        ]
        chapters.append("\n\n".join([TALE.heading(number), *paragraphs]))
    path.write_text("\n\n\n".join(chapters) + "\n")
    return path


@pytest.fixture
def run(bert_folder, capsys):
    """Runs a command in this process with a small encoder; returns its exit code, stdout and
    stderr."""

    def call(command, *arguments):
        try:
            code = main(
                [command, "--model", bert_folder, "--dtype", "float32", *map(str, arguments)]
            )
        except SystemExit as exit:
            code = exit.code
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def expected(book, bert_folder):
    return score_book(book, StoryEncoder.from_pretrained(bert_folder, dtype="float32"))


def same(found, expected):
    """Equal but for the title and rounding of sums."""
    assert json.dumps(found.to_dict(), sort_keys=True) == json.dumps(
        expected.to_dict(), sort_keys=True
    )


def test_json_and_lines_have_the_result(run, book, expected, tmp_path):
    for form in ("json", "jsonl"):
        out = tmp_path / f"scores.{form}"
        code, printed, err = run("score", book, "--level", LEVELS, "-o", out)
        assert (code, printed, err) == (0, "", "")
        same(read_book_salience(out), expected)
    code, printed, _ = run("score", book, "--level", LEVELS, "-f", "jsonl")
    assert printed == (tmp_path / "scores.jsonl").read_text() and len(printed.splitlines()) == 4


def test_text_is_a_table_of_contents_and_the_salient_sentences_of_each_chapter(run, book, expected):
    code, printed, _ = run("score", book, "--level", LEVELS, "--top", 1)
    assert code == 0
    for chapter in expected.chapters:
        assert re.search(rf"^ *{chapter.index + 1} .* {re.escape(chapter.text)}$", printed, re.M)
        sentences = [sentence for scene in chapter.children for sentence in scene.children]
        best = max(sentences, key=lambda sentence: sentence.scores["summarization"])
        assert f"{best.index + 1}  {best.scores['summarization']:.3f}  {best.text}" in printed
    assert "scene 2" in printed and "shifting is for sentences only" in " ".join(printed.split())
    assert (
        "scene"
        not in run("score", book, "--level", "sentence")[1]
        .split("sentences\n", 1)[1]
        .split("Bars")[0]
    )


def test_a_page_opens_down_to_the_sentences(run, book, tmp_path):
    assert run("score", book, "--level", LEVELS, "-o", tmp_path / "book.html")[0] == 0
    page = (tmp_path / "book.html").read_text()
    assert page.count("<details>") == page.count("</details>") == 3 + 5
    assert (
        "prefers-color-scheme: dark" in page
        and "<script" not in page
        and "http" not in page.split("<body>")[1]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--level", "page"], "level 'page' is unknown"),
        (["--level", "chapter", "-f", "csv"], "--format csv does not apply to --level"),
        (["--level", "chapter", "--windows", "3"], "--windows does not apply to a book"),
        (["--level", "chapter", "--processes", "2"], "--processes does not apply to a book"),
        (
            ["--level", "chapter", "-f", "html", "--top", "2"],
            "--top with --level needs --format text",
        ),
        (["--level", "chapter", "--resume"], "--resume needs"),
        (["--level", "chapter", "--operations", "shifting"], "moving it changes nothing"),
        (["other.txt", "--level", "chapter"], "a book is one file"),
    ],
    ids=str,
)
def test_what_does_not_apply_to_a_book_is_refused(run, book, arguments, message):
    code, _, err = run("score", book, *arguments)
    assert code in (1, 2) and message in err


def test_a_book_that_can_not_be_read_is_named(run, tmp_path):
    for command in (["score", "--level", "chapter"], ["extract"]):
        code, _, err = run(*command, tmp_path / "missing.txt")
        assert code == 1 and "missing.txt: can't be read" in err


def test_an_interrupted_run_is_continued(run, book, tmp_path):
    out = tmp_path / "scores.jsonl"
    arguments = [book, "--level", LEVELS, "-o", out]
    assert run("score", *arguments)[0] == 0
    complete = out.read_text()
    for kept in range(4):
        lines = complete.splitlines(keepends=True)[:kept]
        out.unlink(missing_ok=True)
        (tmp_path / "scores.jsonl.part").write_text("".join(lines) + '{"heading": "Chap')
        if (tmp_path / "scores.jsonl.run").exists():
            (tmp_path / "scores.jsonl.run").rename(tmp_path / "scores.jsonl.part.run")
        assert run("score", *arguments, "--resume")[0] == 0
        assert out.read_text() == complete
    assert run("score", *arguments, "--resume")[0] == 0 and out.read_text() == complete


def test_a_run_is_continued_with_the_same_book_and_options_only(run, book, tmp_path):
    out = tmp_path / "scores.jsonl"
    assert run("score", book, "--level", LEVELS, "-o", out)[0] == 0
    code, _, err = run("score", book, "--level", "chapter", "-o", out, "--resume")
    assert code == 2 and "levels" in err
    book.write_text(book.read_text() + "It rained again.\n")
    code, _, err = run("score", book, "--level", LEVELS, "-o", out, "--resume")
    assert code == 2 and "book" in err
    out.write_text('{"sentences": []}\n')
    code, _, err = run("score", book, "--level", LEVELS, "-o", out, "--resume")
    assert code == 2 and "can't resume" in err


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_is_continued(sign, book, bert_folder, tmp_path):
    """Stopped as soon as the first chapter is written."""
    out = tmp_path / "scores.jsonl"
    book.write_text(
        "\n\n".join(
            f"Chapter {i}\n\n" + "Nadia ran. It rained on the mill. " * 40 for i in range(1, 9)
        )
    )
    command = [COMMAND, "score", book, "--level", LEVELS, "--model", bert_folder, "-o", out]
    part = tmp_path / "scores.jsonl.part"
    with started(*command, stderr=subprocess.PIPE) as process:
        wait_until(lambda: part.exists() and part.read_text().count("\n") >= 1, process)
        process.send_signal(sign)
        err = process.communicate(timeout=LIMIT)[1]
    if sign == signal.SIGINT:
        assert process.returncode == 130 and "continue with --resume" in err
    assert run_command(*command, "--resume").returncode == 0
    other = tmp_path / "other.jsonl"
    assert run_command(*command[:-1], other).returncode == 0
    assert out.read_text() == other.read_text()


def test_extracts_in_all_formats(run, book, expected, tmp_path):
    extract = expected.extract(share=0.4)
    assert run("extract", book, "--share", "40%")[1] == f"{extract}\n"
    assert run("extract", book, "--share", "0.4", "-f", "markdown")[1] == extract.to_markdown()
    assert run("extract", book, "--sentences", 3)[1] == f"{expected.extract(3)}\n"
    assert run("extract", book, "--words", 20)[1] == f"{expected.extract(words=20)}\n"
    assert run("extract", book, "-o", tmp_path / "short.md")[0] == 0
    assert (tmp_path / "short.md").read_text() == expected.extract().to_markdown()


def test_an_extract_of_saved_scores_needs_no_encoder(run, book, expected, tmp_path, monkeypatch):
    out = tmp_path / "scores.jsonl"
    assert run("score", book, "--level", LEVELS, "-o", out)[0] == 0
    monkeypatch.setattr(StoryEncoder, "from_pretrained", None)
    code, printed, _ = run("extract", out, "--sentences", 4, "--operation", "deletion")
    assert code == 0 and printed == f"{expected.extract(4, 'deletion')}\n"
    incomplete = tmp_path / "incomplete.jsonl"
    incomplete.write_text("".join(out.read_text().splitlines(keepends=True)[:2]))
    code, _, err = run("extract", incomplete)
    assert code == 1 and "incomplete.jsonl: the result of the book is not complete" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--share", "200%"], "is not a number from 0 to 1"),
        (["--share", "x%"], "'x%' is not a number"),
        (["--sentences", "0"], "not an integer of 1 or more"),
        (["--share", "0.1", "--words", "9"], "not allowed with"),
        (["-f", "markdown", "-o", "out.txt"], "is named as text, but --format is markdown"),
    ],
    ids=str,
)
def test_invalid_options_of_extract_are_refused(run, book, arguments, message):
    code, _, err = run("extract", book, *arguments)
    assert code == 2 and message in err


def test_from_dict_of_the_lines(expected):
    assert BookSalience.from_dict(expected.to_dict()) == expected


@pytest.mark.parametrize("saved", ["json", "jsonl"])
def test_saved_scores_are_shown(saved, run, book, tmp_path, capsys):
    """Each format is what `score` and `extract` write."""
    assert run("score", book, "--level", LEVELS, "--out", tmp_path / f"tale.{saved}")[0] == 0
    result = read_book_salience(tmp_path / f"tale.{saved}")

    def show(*options):
        code = main(["show", str(tmp_path / f"tale.{saved}"), *map(str, options)])
        return code, *capsys.readouterr()

    for form in ("text", "html", "json"):
        expected = run("score", book, "--level", LEVELS, "--format", form)[1]
        assert show("--format", form) == (0, expected, "")
    assert show("--format", "extract", "--top", 3) == (0, f"{result.extract(3)}\n", "")
    assert show("--format", "extract", "--share", 0.5)[1] == f"{result.extract(share=0.5)}\n"
    assert show("--out", tmp_path / "tale.svg")[0] == 0
    assert "The Mill" not in (tmp_path / "tale.svg").read_text()[:100]


def test_what_show_refuses_of_a_book(run, book, tmp_path, capsys):
    saved = tmp_path / "tale.json"
    assert run("score", book, "--level", "chapter", "--out", saved)[0] == 0
    for options, message in {
        (
            "--format",
            "csv",
        ): "--format csv does not apply to a book; choose from text, json, html, extract, png, svg",
        ("--operations", "deletion"): "--operations does not apply to the scores of a book",
        ("--format", "html", "--top", "2"): "--top with a book needs --format text or extract",
        (str(saved),): "the scores of a book are shown by themselves; name one file",
        ("--format", "extract"): "the level 'sentence' was not scored",
    }.items():
        capsys.readouterr()
        assert main(["show", str(saved), *options]) == 1
        assert message in capsys.readouterr().err

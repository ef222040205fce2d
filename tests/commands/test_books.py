"""`narrative-twins book` and `extract`: a book from a file to its scores and extracts."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from narrative_twins import BookSalience, StoryEncoder, score_book, writing
from narrative_twins.books.result import read_book_salience

from support.command import run
from support.tales import TALE


@pytest.fixture
def tale(tmp_path):
    path = tmp_path / "tale.txt"
    chapters = []
    for number, chapter in enumerate(TALE.chapters):
        parts = [TALE.heading(number)]
        for i, paragraph in enumerate(chapter.paragraphs):
            mark = "* * *\n\n" if i in chapter.breaks else ""
            parts.append(mark + TALE.text[slice(*paragraph)])
        chapters.append("\n\n".join(parts))
    path.write_text("\n\n\n".join(chapters) + "\n")
    return path


@pytest.fixture
def encoder(bert_folder):
    return ["--model", bert_folder, "--dtype", "float32", "--device", "cpu"]


@pytest.fixture
def book(encoder):
    """Runs `book` with a small encoder."""
    return partial(run, "book", *encoder)


@pytest.fixture
def extract(encoder):
    """Runs `extract` with a small encoder."""
    return partial(run, "extract", *encoder)


@pytest.fixture
def expected(tale, bert_folder):
    return score_book(
        tale, StoryEncoder.from_pretrained(bert_folder, device="cpu", dtype="float32")
    )


def test_json_and_lines_have_the_result(book, tale, expected, tmp_path):
    for form in ("json", "jsonl"):
        out = tmp_path / f"scores.{form}"
        assert book(tale, "-o", out) == (0, "", "")
        assert read_book_salience(out).json() == expected.json()
    done = book(tale, "-f", "jsonl")
    assert done.out == (tmp_path / "scores.jsonl").read_text() and len(done.rows) == 4
    assert BookSalience.from_dict(expected.json()) == expected


def test_text_is_a_table_of_contents_and_salient_sentences(book, tale, expected):
    done = book(tale, "--top", 1)
    assert done.code == 0
    for chapter in expected.chapters:
        heading = rf"^ *{chapter.index + 1} .* {re.escape(chapter.text)}$"
        assert re.search(heading, done.out, re.M)
        sentences = expected.sentences[slice(*expected.sentences_of(chapter))]
        best = max(sentences, key=lambda sentence: sentence.scores["summarization"])
        score = best.scores["summarization"]
        assert f"{best.index + 1}  {score:.3f}  {best.text}" in done.out
    assert "scene 2" in done.out
    assert "scene 2" not in book(tale, "--level", "sentence").out


def test_what_is_left_out_is_explained_and_counted(book, tmp_path):
    text = "Chapter 1\n\nNadia ran.\n\n[Footnote 1: Home.]\n\nThe mill burned down."
    (tmp_path / "tale.txt").write_text(text)
    assert book("--explain", tmp_path / "tale.txt").out.splitlines()[:3] == [
        "headings: Chapter 1 (after the beginning)",
        "notes: [Footnote 1: Home.] (after Chapter 1)",
        "Left out: notes (1).",
    ]
    shown = book(tmp_path / "tale.txt")
    assert "Left out: notes (1)." in shown.out and "34% of the text is left out" in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--level", "page"], "'page' is not one of 'chapter', 'scene', 'sentence'"),
        (["-o", "out.csv"], "does not apply to a book; choose from text"),
        (["-f", "html", "--top", "2"], "--top with a book needs --format text"),
        (["--resume"], "--resume needs"),
    ],
    ids=str,
)
def test_what_does_not_apply_to_a_book_is_refused(book, tale, arguments, message):
    done = book(tale, *arguments)
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_an_interrupted_run_is_continued_with_the_same_book_and_options_only(
    book, tale, tmp_path, monkeypatch, rows
):
    whole, out = tmp_path / "whole.jsonl", tmp_path / "scores.jsonl"
    assert book(tale, "-o", whole).code == 0
    append, written = writing.append, []

    def interrupt(file, data):
        if len(written) == rows:
            raise KeyboardInterrupt
        written.append(data)
        append(file, data)

    monkeypatch.setattr(writing, "append", interrupt)
    done = book(tale, "-o", out)
    assert done.code == 130 and "continue with --resume" in done.err and not out.exists()
    monkeypatch.undo()
    for *options, change in (
        ["--level", "chapter", "levels"],
        ["--exact", "approximate"],
        ["--similarity", "dot", "similarity"],
    ):
        done = book(tale, *options, "-o", out, "--resume")
        assert done.code == 2 and change in done.err
    assert book(tale, "-o", out).code == 2, "without --resume"
    text = tale.read_text()
    tale.write_text(f"{text}It rained again.\n")
    done = book(tale, "-o", out, "--resume")
    assert done.code == 2 and "book" in done.err
    tale.write_text(text)
    assert book(tale, "-o", out, "--resume") == (0, "", "")
    assert out.read_text() == whole.read_text() and not list(tmp_path.glob("*.part*"))
    done = book(tale, "-o", out, "--resume")
    assert done.code == 0 and "is complete" in done.err


def test_sentences_are_scored_in_one_pass_unless_the_user_wants_exact_scores(book, tale):
    """The last of several flags counts."""
    for flags, approximate in (
        ([], "one-pass"),
        (["--fast"], "one-pass"),
        (["--exact"], None),
        (["--approximate", "none"], None),
        (["--exact", "--fast"], "one-pass"),
        (["--fast", "--exact", "--max-shifts", "1"], "max_shifts=1"),
    ):
        done = book(tale, "-f", "json", "--level", "sentence", *flags)
        assert json.loads(done.out)["approximate"] == approximate, (flags, done)


def test_extracts_in_all_formats(extract, tale, expected, tmp_path):
    found = expected.extract(share=0.4)
    assert extract(tale, "--share", "40%").out == f"{found}\n"
    assert extract(tale, "--share", "0.4", "-f", "markdown").out == found.to_markdown()
    assert extract(tale, "--sentences", 3).out == f"{expected.extract(3)}\n"
    assert extract(tale, "--words", 20).out == f"{expected.extract(words=20)}\n"
    assert extract(tale, "-o", tmp_path / "short.md", "--share", "0.4").code == 0
    assert (tmp_path / "short.md").read_text() == found.to_markdown()


def test_saved_scores_need_no_encoder(book, extract, tale, expected, tmp_path, monkeypatch):
    """Each format is what `book` and `extract` write."""
    saved, incomplete = tmp_path / "scores.jsonl", tmp_path / "incomplete.jsonl"
    assert book(tale, "-o", saved).code == 0
    pages = {form: book(tale, "-f", form).out for form in ("text", "html", "json")}
    monkeypatch.setattr(StoryEncoder, "from_pretrained", None)
    done = extract(saved, "--sentences", 4, "--operation", "deletion")
    assert done == (0, f"{expected.extract(4, 'deletion')}\n", "")
    incomplete.write_text("".join(saved.read_text().splitlines(keepends=True)[:2]))
    done = extract(incomplete)
    assert done.code == 1
    assert "incomplete.jsonl: the result of the book is not complete" in done.err

    for form, page in pages.items():
        assert run("show", saved, "--format", form) == (0, page, "")
    done = run("show", saved, "--format", "extract", "--share", 0.5)
    assert done.out == f"{expected.extract(share=0.5)}\n"
    assert run("show", saved, "--out", tmp_path / "tale.svg").code == 0
    assert (tmp_path / "tale.svg").read_text().startswith("<?xml")


def test_what_show_refuses_of_a_book(book, tale, tmp_path):
    saved = tmp_path / "tale.json"
    assert book(tale, "--level", "chapter", "--out", saved).code == 0
    for options, code, message in (
        (["--format", "csv"], 2, "--format csv does not apply to a book; choose from text"),
        (["--operations", "deletion"], 2, "--operations does not apply to a book"),
        (["--format", "html", "--top", "2"], 2, "--top with a book needs --format text or"),
        ([saved], 2, "the scores of a book are shown by themselves; name one file"),
        (["--format", "extract"], 1, "level 'sentence' was not scored"),
    ):
        done = run("show", saved, *options)
        assert done.code == code and message in done.err


def test_what_extract_refuses(extract, tale, tmp_path):
    done = extract(tmp_path / "missing.txt")
    assert done.code == 1 and "missing.txt: can't be read" in done.err
    for arguments, message in (
        (["--share", "200%"], "'200%' is not a share of the sentences"),
        (["--share", "0.1", "--words", "9"], "use one"),
        (["-o", "out.epub"], ".epub is not the suffix of a format; use one of .txt, .md"),
    ):
        done = extract(tale, *arguments)
        assert done.code == 2 and message in done.err

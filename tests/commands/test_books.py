"""`narrative-twins book` and `extract`: a book from a file to its scores and extracts."""

import json
import re
from functools import partial

import pytest

from narrative_twins import BookSalience, StoryEncoder, score_book
from narrative_twins.books.result import read_book_salience

from support.command import run

TALE = """Chapter 1: The Map|Nadia found a map. It was old.|* * *|She ran. It rained.|Chapter 2
|The bridge was gone. Nadia swam across alone.|Chapter 3|The mill burned down. I was there. So."""


@pytest.fixture
def tale(tmp_path):
    (tmp_path / "tale.txt").write_text(TALE.replace("\n", "").replace("|", "\n\n"))
    return tmp_path / "tale.txt"


@pytest.fixture
def book(bert_folder):
    """Runs a command, by default `book`, with a small encoder."""
    options = ["--model", bert_folder, "--dtype", "float32", "--device", "cpu"]
    return lambda *arguments, command="book": run(command, *options, *arguments)


@pytest.fixture
def extract(book):
    return partial(book, command="extract")


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


def test_sentences_are_scored_in_one_pass_unless_the_user_wants_exact_scores(book, tale):
    for flags, approximate in (([], "one-pass"), (["--fast"], "one-pass"), (["--exact"], None)):
        done = book(tale, "-f", "json", "--level", "sentence", *flags)
        assert json.loads(done.out)["approximate"] == approximate, (flags, done)


def test_extracts_in_all_formats(extract, tale, expected, tmp_path):
    found = expected.extract(share=0.4)
    assert extract(tale, "--share", "40%").out == f"{found}\n"
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


REFUSED = [
    ("book tale.txt -o out.csv", 2, "does not apply to a book; choose from text"),
    ("book tale.txt -f html --top 2", 2, "--top with a book needs --format text"),
    ("show tale.json --format csv", 2, "--format csv does not apply to a book; choose from text"),
    ("show tale.json --operations deletion", 2, "--operations does not apply to a book"),
    ("show tale.json -f html --top 2", 2, "--top with a book needs --format text or"),
    ("show tale.json tale.json", 2, "the scores of a book are shown by themselves; name one file"),
    ("extract tale.txt --share 200%", 2, "'200%' is not a share of the sentences"),
    ("extract tale.txt --share 0.1 --words 9", 2, "use one"),
]


@pytest.fixture(scope="module")
def shared(bert_folder, tmp_path_factory):
    """A folder with a book, and with scores of its chapters."""
    folder = tmp_path_factory.mktemp("books")
    (folder / "tale.txt").write_text("Chapter 1\n\nNadia ran.\n\nChapter 2\n\nIt rained.\n")
    command = ["book", "tale.txt", "--level", "chapter", "-o", "tale.json", "--model", bert_folder]
    assert run(*command, cwd=folder).code == 0
    return folder


@pytest.mark.parametrize(("line", "code", "message"), REFUSED, ids=str)
def test_what_is_refused(line, code, message, shared, bert_folder):
    name, *arguments = line.split()
    encoder = [] if name == "show" else ["--model", bert_folder]
    done = run(name, *encoder, *arguments, cwd=shared)
    assert done.code == code and message in done.err and done.err.count("\n") == 1

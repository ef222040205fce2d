"""Books on the web page, without a browser: what is refused, what is shown, and downloads."""

from __future__ import annotations

import base64
import json
import re
from html import unescape

import pytest

from narrative_twins import score_book
from narrative_twins.app import estimates, requests
from narrative_twins.app.book_page import SHARE, BookPage
from narrative_twins.app.page import KEPT, Page, Visitor
from narrative_twins.app.queue import ScoringQueue
from narrative_twins.app.requests import MAX_BOOK
from narrative_twins.commands.cli import main
from narrative_twins.salience.books.units import LEVELS
from narrative_twins.stories.books.reading import read_book

from support.books import WRITERS, WrittenChapter
from support.processes import wait_until

ME = Visitor("here", "me")
CHAPTERS = [
    WrittenChapter(
        "Chapter 1: The <Map>", ["Nadia found a map. It rained.", "She laughed & left."], [1]
    ),
    WrittenChapter("Chapter 2: The Mill", ["The mill was gone. Nobody knew why. It was dark."], []),
]
TEXT, EPUB = (WRITERS[name]("A Tale", CHAPTERS) for name in ("book.txt", "book3.epub"))


@pytest.fixture
def page(bert_folder):
    return BookPage(Page(ScoringQueue(bert_folder), pause=0.01))


def sent(name: str, data: bytes) -> str:
    """A file as the browser sends it."""
    return f"{name}\n{base64.b64encode(data).decode()}"


def scored(page, file, levels=LEVELS, method="one pass"):
    *_, changes = page.score(ME, file, list(levels), method)
    return changes


@pytest.mark.parametrize("method", ["one pass", "exact"])
@pytest.mark.parametrize("name", WRITERS)
def test_scores_are_those_of_score_book(page, name, method, bert_folder, tmp_path):
    (tmp_path / name).write_bytes(data := WRITERS[name]("A Tale", CHAPTERS))
    changes = scored(page, sent(name, data), method=method)
    book = read_book(tmp_path / name)
    expected = score_book(
        book, bert_folder, approximate="one-pass" if method == "one pass" else None
    )
    found = page.page.results[changes["token"]]
    assert found.extent == expected.extent and found.approximate == expected.approximate
    for level in LEVELS:
        assert found.operations(level) == expected.operations(level)
        assert found.scores_of(level) == pytest.approx(expected.scores_of(level), abs=1e-5)
    assert changes["contents"].count("<details>") == 2 + 2, (
        "two chapters, one of them with two scenes"
    )
    assert (
        "Chapter 1: The &lt;Map&gt;" in changes["contents"] and "Shaded by" in changes["contents"]
    )
    assert changes["busy"] is False and f"{found.extent}." in changes["status"]


def test_extract_and_downloads(page, tmp_path, capsys):
    changes = scored(page, sent("book.txt", TEXT))
    token, result = changes["token"], page.page.results[changes["token"]]

    def shown(html: str) -> str:
        return unescape(re.search(r'<p class="extract">(.*?)</p>', html, re.DOTALL)[1])

    assert shown(changes["extract"]) == str(result.extract(share=SHARE / 100))
    assert (
        shown(page.extract(token, 50)["extract"])
        == str(result.extract(share=0.5))
        != shown(changes["extract"])
    )
    saved = tmp_path / "book.json"
    saved.write_text("".join(page.page.download(token, "json")))
    assert json.loads(saved.read_text())["levels"] == list(LEVELS)
    assert main(["show", str(saved)]) == 0
    assert "Chapter 2: The Mill" in capsys.readouterr().out
    assert "<details>" in "".join(page.page.download(token, "html"))
    with pytest.raises(KeyError):
        page.page.download(token, "csv")
    assert "download/" + token + ".json" in changes["downloads"]


def test_without_sentences_there_is_no_extract(page):
    changes = scored(page, sent("book.txt", TEXT), ["chapter"])
    assert (
        "An extract needs the level of sentences" in changes["extract"]
        and "unit sentence" not in changes["contents"]
    )


def test_results_of_a_story_are_no_book(page):
    assert "no longer stored" in page.extract("nothing", 10)["status"]
    *_, story = page.page.score(ME, "Nadia ran. It rained.", ["deletion"], "auto", "exact")
    assert "no longer stored" in page.extract(story["token"], 10)["status"]
    book = scored(page, sent("book.txt", TEXT))
    assert "no longer stored" in page.page.shade(book["token"], "deletion", 1)["status"]
    for _ in range(KEPT):
        page.page.keep(page.page.results[book["token"]])
    assert book["token"] not in page.page.results


@pytest.mark.parametrize(
    ("file", "levels", "told"),
    [
        ("", LEVELS, "There is no book yet"),
        (sent("book.txt", TEXT), [], "Choose at least one level"),
        (sent("book.txt", TEXT)[:-3], LEVELS, "did not arrive whole"),
        ("book.txt\n<script>", LEVELS, "did not arrive whole"),
        (sent("book.pdf", b"%PDF-1.4"), LEVELS, "book.pdf is none of .txt, .text"),
        (sent("../../etc/passwd", b"root"), LEVELS, "passwd is none of"),
        (sent("book.epub", b"no zip"), LEVELS, "Book.epub: "),
        (sent("book.docx", EPUB), LEVELS, "Book.docx: "),
        (sent("book.txt", b"\x89PNG\r\n\x1a\n\0\0"), LEVELS, "Book.txt: "),
        (sent("book.txt", b"\n \n"), LEVELS, "has no text of a story"),
        (sent("book.txt", b"a" * (MAX_BOOK + 1)), LEVELS, "more than 10,000,000 bytes"),
    ],
    ids=lambda value: value[:20].split("\n")[0] if isinstance(value, str) else None,
)
def test_what_is_refused(page, file, levels, told):
    changes = scored(page, file, levels)
    assert (
        told in unescape(changes["status"])
        and 'role="alert"' in changes["status"]
        and "token" not in changes
    )
    assert "Traceback" not in changes["status"]


def test_long_books_are_refused(page, monkeypatch):
    monkeypatch.setattr(requests, "MAX_SENTENCES", 5)
    assert (
        "The book has 6 sentences, more than the limit of 5"
        in scored(page, sent("book.txt", TEXT))["status"]
    )


def test_slow_books_are_refused_with_what_is_faster(page, monkeypatch):
    monkeypatch.setattr(estimates, "measured_speed", lambda *_: 1000.0)
    page.page.queue.patience = 30.0
    long = sent("book.txt", b" ".join(b"Nadia ran to house number %d." % n for n in range(120)))
    told = scored(page, long, method="exact")["status"]
    assert re.search(
        r"The book takes more than 30 seconds to score on this machine; choose one pass \(\d+ s",
        told,
    ), told
    assert "use the command" in scored(page, sent("book.txt", TEXT * 1000))["status"]
    assert "token" in scored(page, long, ["chapter"])


def test_a_cancelled_book_frees_the_queue(page):
    steps = page.score(ME, sent("book.txt", TEXT * 200), list(LEVELS), "exact")
    next(steps)
    page.page.cancel(ME)
    *_, last = steps
    assert "Cancelled" in last["status"] and last["busy"] is False
    wait_until(lambda: page.page.queue._current is None)
    assert "token" in scored(page, sent("book.txt", TEXT))

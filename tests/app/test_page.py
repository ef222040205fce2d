"""The page without a server: its HTML, what it scores, its events and its errors."""

import re
import threading
from html import unescape
from itertools import accumulate, pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, Story, StorySalience, score_book, score_stories
from narrative_twins.app.result_html import displayed, downloads, salience_curve, shaded_text
from narrative_twins.app.scoring import EXACT, KEPT, MAX_CHARACTERS, ONE_PASS, Scoring
from narrative_twins.books.table import LEVELS
from narrative_twins.encoder.passes import ForwardPasses

from support.books import WRITERS, WrittenChapter
from support.parsed import Parsed
from support.processes import LIMIT, wait_until
from support.results import any_text
from support.scoring import FixedScores, assert_same_result

ROOT = Path(__file__).parents[2]
TALE = "Nadia found a map.\n\nIt led to a mill. The mill was gone.\nShe laughed until it got dark."
LONG = " ".join(f"On day {day} Nadia walked on and counted {day} boats." for day in range(40))
ME = SimpleNamespace(session_hash="me")
CHAPTERS = [
    WrittenChapter("Chapter 1: The <Map>", ["Nadia found a map. It rained.", "She left."], [1]),
    WrittenChapter("Chapter 2: The Mill", ["The mill was gone. Nobody knew why. It was dark."], []),
]


@pytest.fixture(scope="module")
def scoring(bert_folder):
    return Scoring(bert_folder, max_sentences=6)


@pytest.fixture
def page(scoring):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    from narrative_twins.app.page import ScoringPage

    return ScoringPage(scoring)


def named(page, changes):
    """Changes of the page by the names of its parts."""
    names = {id(part): name for name, part in vars(page).items()}
    return {names[id(part)]: value for part, value in changes.items()}


def scored(page, text=TALE, windows="auto", operations=None, method=ONE_PASS, split="sentences"):
    values = text, operations, windows, method, split
    return named(page, page.story_scored(ME, lambda share: None, *values))


def scored_book(page, path, levels=LEVELS, method=ONE_PASS):
    return named(page, page.book_scored(ME, lambda share: None, path, list(levels), method))


def written(folder, name, chapters=CHAPTERS):
    (folder / name).write_bytes(WRITERS[name]("A Tale", chapters))
    return str(folder / name)


def made(text, spans, scores=None):
    """A result made without an encoder."""
    story = Story(tuple(text[lo:hi] for lo, hi in spans), text, tuple(spans), ((0, len(spans)),))
    values = scores or [float(i) for i in range(len(spans))]
    return StorySalience(story, {"summarization": values}, 512, 0)


@given(st.lists(any_text, min_size=1))
@example(["<script>a</script>", "\0\ud800\r\n", "${1+1}", "{{value}}", "\r", "&lt;"])
def test_any_text_is_shown_as_text(pieces):
    text, spans = "".join(pieces), list(pairwise(accumulate(map(len, pieces), initial=0)))
    for shown in (spans, spans[::2]):
        parsed = Parsed(shaded_text(made(text, shown), "summarization"))
        assert parsed.text == displayed(text) and len(parsed.text) == len(text)
        # What HTML parsers and encoders can't take is replaced, character by character.
        assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", parsed.text)
        assert all(
            old in ("\r", new) or new == "\ufffd"
            for old, new in zip(text, parsed.text, strict=True)
        )
        assert parsed.tags == ["div"] + ["span"] * len(shown)
        names = {"class", "tabindex", "style", "data-scores", "aria-description"}
        assert all(set(attributes) == names for _, attributes in parsed.elements[1:])


def test_sentences_are_shaded_and_have_their_scores_and_a_curve():
    result = made("One. Two. Three.", [(0, 4), (5, 9), (10, 16)], [0.5, 0.9, 0.1])
    shaded = Parsed(shaded_text(result, "summarization"))
    (_, first), (_, second), (_, third) = shaded.elements[1:]
    assert second["class"] == "sentence top" and first["class"] == third["class"] == "sentence"
    assert [sentence["tabindex"] for sentence in (first, second, third)] == ["0", "-1", "-1"]
    assert third["style"] == "--light:rgb(255, 255, 255);--dark:rgb(33, 30, 27)"
    assert first["data-scores"] == "Sentence 1 of 3, rank 2 by summarization: summarization 0.500"
    curve = salience_curve(result, "summarization")
    points = re.search('<polyline points="(.*?)"', curve)[1]
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert heights[1] < heights[0] < heights[2], "the curve goes up with salience"
    labels = re.findall(r"<span>([^<]+)</span>", curve)
    assert labels == ["0.900", "0.100", "1", "sentence", "3"]


def test_scores_are_those_of_the_engine_and_can_be_shaded_by_another_operation(page, bert_folder):
    changes = scored(page, windows="2, 2", method=EXACT)
    (result,) = score_stories([TALE], bert_folder, windows=[2, 2])
    kept = page.scoring.results[changes["key"]]
    assert_same_result(kept.json(), result.json())
    assert changes["operation"]["choices"] == list(OPERATIONS)
    assert changes["operation"]["value"] == "summarization" and changes["operation"]["visible"]
    assert "4 sentences, 2 windows." in changes["status"]
    assert "Agrees best with human readers" in changes["result"]
    assert changes["result"].count('class="rule"') == 1
    assert str(kept.extract(1, "summarization")) in unescape(changes["result"])
    other = named(page, page.shade(changes["key"], "shifting"))
    assert "shaded by shifting" in other["result"]
    for token, operation in (("gone", "shifting"), (changes["key"], "<b>")):
        assert "score the text again" in named(page, page.shade(token, operation))["status"]


def test_truncation_and_approximation_are_noted(page):
    changes = scored(page, "Nadia found a map.\n" * 200, windows="20", split="lines")
    kept = page.scoring.results[changes["key"]]
    assert "The scores are approximate (one-pass)." in changes["status"]
    assert kept.truncated and f"up to {kept.cut_tokens} of its tokens" in changes["status"]
    changes = scored(page, "Nadia\ud800 ran. \ud83d\ude00 It rained.")
    assert page.scoring.results[changes["key"]].story.text == "Nadia\ufffd ran. 😀 It rained."


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"text": " \n"}, "There is no story yet"),
        ({"text": {"path": "/etc/passwd"}}, "There is no story yet"),
        ({"text": "a" * (MAX_CHARACTERS + 1)}, "The text has 2,000,001 characters"),
        ({"operations": []}, "Choose at least one operation"),
        ({"windows": "many"}, "neither auto, a count such as 5"),
        ({"method": ["exact"]}, "The method is none of one pass, exact"),
        ({"text": "It rained. " * 7, "method": EXACT}, "at most 6 are scored exactly here"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_input_that_is_not_valid_is_an_error_of_one_sentence(page, values, message):
    status = scored(page, **values)["status"]
    text = Parsed(status).text.strip()
    assert message in text and 'role="alert"' in status
    assert "\n" not in text and len(text) < 500
    assert not text[0].islower() and text[-1] in ".…)'`]"


@pytest.fixture
def own(bert_folder):
    return Scoring(bert_folder, max_sentences=40)


@pytest.fixture
def gate(own, monkeypatch):
    """Forward passes are counted, and wait until this event is set."""
    states, opened = ForwardPasses.states, threading.Event()
    opened.passes = 0

    def gated(self, rows):
        opened.passes += 1
        assert opened.wait(LIMIT)
        return states(self, rows)

    monkeypatch.setattr(ForwardPasses, "states", gated)
    yield opened
    opened.set()


def start(scoring, session, text, progress=lambda share: None):
    """Score a story exactly in a thread; returns the thread, and its results and errors."""
    ended = []

    def score():
        try:
            ended.append(scoring.score_story(session, progress, text, windows="1", method=EXACT))
        except ValueError as error:
            ended.append(str(error))

    thread = threading.Thread(target=score)
    thread.start()
    return thread, ended


def test_one_story_is_scored_at_a_time_and_can_be_cancelled(own, gate):
    shares = []
    first, cancelled = start(own, "me", LONG, shares.append)
    wait_until(lambda: gate.passes)
    second, ended = start(own, "somebody else", TALE)
    own.cancel("another")
    own.cancel("me")
    assert gate.passes == 1
    gate.set()
    first.join(LIMIT)
    second.join(LIMIT)
    assert cancelled == ["the scoring was cancelled"] and len(ended[0].sentences) == 4
    assert not shares or max(shares) < 1
    third, closed = start(own, "me", LONG)
    wait_until(lambda: own._session == "me")
    own.close()
    third.join(LIMIT)
    assert closed == ["the scoring was cancelled"]


def test_a_limited_number_of_results_is_kept(scoring):
    result = made("Nadia ran.", [(0, 10)])
    tokens = [scoring.keep(result) for _ in range(KEPT + 1)]
    assert list(scoring.results) == tokens[1:]


def test_an_operation_without_a_one_pass_form_is_chosen_with_exact_scores_only(page, monkeypatch):
    monkeypatch.setitem(OPERATIONS, "fixed", FixedScores([0.0]))
    for method, names in ((ONE_PASS, set(OPERATIONS) - {"fixed"}), (EXACT, set(OPERATIONS))):
        built = type(page)(page.scoring, method)
        assert built.story_method.value == method and set(built.operations.value) == names


def test_scores_of_a_book_are_those_of_score_book(page, bert_folder, tmp_path):
    path = written(tmp_path, "book3.epub")
    changes = scored_book(page, path, method=EXACT)
    expected = score_book(path, bert_folder, approximate=None)
    result = page.scoring.results[changes["key"]]
    assert (result.extent, result.approximate) == (expected.extent, expected.approximate)
    for level in LEVELS:
        scores = expected.at(level).scores_of()
        assert result.at(level).scores_of() == pytest.approx(scores, abs=1e-5)
    html = changes["result"]
    assert "Chapter 1: The &lt;Map&gt;" in html and "Shaded by" in html
    assert html.count("<details>") == 2 + 2, "two chapters, one with two scenes"
    assert str(result.extract(share=0.05)) in unescape(html) and ".json" in html
    assert "json" in downloads(result) and "csv" not in downloads(result)
    assert not changes["operation"]["visible"] and f"{result.extent}." in changes["status"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (None, b"", "Open a book first: .txt, .text"),
        ("passwd", b"root", "Open a book first: .txt, .text"),
        ("book.epub", b"no zip", "Book.epub: "),
        ("book.txt", b"It rained. " * 7, "at most 6 are scored exactly here"),
    ],
)
def test_books_that_are_refused(page, tmp_path, name, data, message):
    if name is not None:
        (tmp_path / name).write_bytes(data)
    changes = scored_book(page, name and str(tmp_path / name), method=EXACT)
    assert list(changes) == ["status"] and str(tmp_path) not in changes["status"]
    assert message in unescape(changes["status"])
    assert "at least one level" in scored_book(page, written(tmp_path, "book.txt"), [])["status"]


def test_the_example_is_a_story_of_the_examples():
    """Which are not installed."""
    packaged = ROOT / "narrative_twins" / "app" / "haunted_stable.txt"
    example = ROOT / "examples" / "stories" / "haunted_stable.txt"
    assert packaged.read_text("utf-8") == example.read_text("utf-8")

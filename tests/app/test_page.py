"""The page without a server: its HTML, what it scores, its events and its errors."""

import asyncio
import re
import threading
import time
from html import unescape
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, Story, StorySalience, score_book, score_stories
from narrative_twins.app.result_html import downloads, reading
from narrative_twins.app.scoring import EXACT, KEPT, MAX_CHARACTERS, ONE_PASS, Job, Scoring
from narrative_twins.books.table import LEVELS
from narrative_twins.encoder.passes import ForwardPasses
from narrative_twins.show.pages import displayed, story_reading

from support.books import WRITERS, WrittenChapter
from support.parsed import Parsed
from support.processes import LIMIT, wait_until
from support.results import any_text
from support.scoring import FixedScores, assert_same_result

ROOT = Path(__file__).parents[2]
TALE = "Nadia found a map.\n\nIt led to a mill. The mill was gone.\nShe laughed until it got dark."
LONG = " ".join(f"On day {day} Nadia walked on and counted {day} boats." for day in range(40))
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


def changes_of(page, panel, job):
    """All changes of a panel until a job is done, by the names of its parts."""

    async def gather():
        return [each async for each in page.changes(panel, job)]

    names = {id(part): name for name, part in vars(panel).items()}
    return [
        {names[id(part)]: value for part, value in changes.items()}
        for changes in asyncio.run(gather())
    ]


def scored(page, text=TALE, windows="auto", operations=None, method=ONE_PASS, split="sentences"):
    job = page.scoring.score_story("me", text, operations, windows, method, split)
    return changes_of(page, page.story, job)[-1]


def scored_book(page, path, levels=LEVELS, method=ONE_PASS):
    return changes_of(page, page.book, page.scoring.score_book("me", path, list(levels), method))[
        -1
    ]


def result_of(page, changes):
    """The result that is shown by the changes, as its links name it."""
    (key,) = set(re.findall(r"download/([\w-]+)\.json", changes["result"]))
    return page.scoring.results[key]


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
        page = str(story_reading(made(text, shown)))
        (inside,) = re.findall(r'<div class="text".*?</div>', page, re.S)
        parsed = Parsed(inside)
        assert parsed.text == displayed(text) and len(parsed.text) == len(text)
        # What HTML parsers and encoders can't take is replaced, character by character.
        assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", parsed.text)
        assert all(
            old in ("\r", new) or new == "\ufffd"
            for old, new in zip(text, parsed.text, strict=True)
        )
        assert parsed.tags == ["div"] + ["span"] * len(shown)
        assert Parsed(page).tags == Parsed(str(story_reading(made("x" * len(text), shown)))).tags


def test_scores_are_those_of_the_engine_and_can_be_shaded_by_another_operation(page, bert_folder):
    changes = scored(page, windows="2, 2", method=EXACT)
    (result,) = score_stories([TALE], bert_folder, windows=[2, 2])
    kept = result_of(page, changes)
    assert_same_result(kept.json(), result.json())
    assert "Done: 4 sentences, 2 windows." in changes["status"]
    shown = Parsed(changes["result"])
    names = [each["value"] for tag, each in shown.elements if tag == "input"]
    assert names == ["summarization", "deletion", "shifting", "disruption"]
    assert "Agrees best with human readers" in changes["result"]
    assert str(kept.extract(1, "summarization")) in unescape(changes["result"])


def test_truncation_and_approximation_are_noted(page):
    changes = scored(page, "Nadia found a map.\n" * 200, windows="20", split="lines")
    kept = result_of(page, changes)
    assert "The scores are approximate (one-pass)." in changes["result"]
    assert kept.truncated and f"up to {kept.cut_tokens} of its tokens" in changes["result"]
    changes = scored(page, "Nadia\ud800 ran. \ud83d\ude00 It rained.")
    assert result_of(page, changes).story.text == "Nadia\ufffd ran. 😀 It rained."


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


def exactly(scoring, owner, text):
    return scoring.score_story(owner, text, windows="1", method=EXACT)


def test_one_story_is_scored_at_a_time_and_can_be_cancelled(own, gate):
    first = exactly(own, "me", LONG)
    wait_until(lambda: gate.passes)
    second, third = exactly(own, "somebody else", TALE), exactly(own, "me too", TALE)
    assert own.ahead(first) == [] and own.ahead(third) == [first, second]
    own.cancel("another")
    assert not first.is_done
    own.cancel("me")
    own.cancel("me too")
    assert first.is_done and third.is_done and not second.is_done and gate.passes == 1
    gate.set()
    for job in (first, third):
        with pytest.raises(ValueError, match="the scoring was cancelled"):
            job.result()
    assert len(second.future.result(LIMIT).sentences) == 4 and first.share < 1
    wait_until(lambda: not own.jobs)
    gate.clear()
    last = exactly(own, "me", LONG)
    threading.Timer(1, gate.set).start()
    own.close()
    with pytest.raises(ValueError, match="the scoring was cancelled"):
        last.result()


def test_progress_is_told_while_a_text_waits_and_is_scored(own, gate, page):
    from narrative_twins.app.page import progress

    first = exactly(own, "me", LONG)
    wait_until(lambda: gate.passes)
    second = exactly(own, "somebody else", TALE)
    assert progress(second, own.ahead(second)) == (
        "Waiting: 1 other text will be scored first.",
        None,
    )
    assert progress(first, own.ahead(first)) == ("Scoring", 0)
    first._began = time.monotonic() - 60
    first.share, first.step = 0.25, "Chapter 3 of 12"
    assert progress(first, []) == ("Chapter 3 of 12, about 3 minutes left", 0.25)
    told, _ = progress(second, own.ahead(second))
    assert told.endswith("scored first. The first has about 3 minutes left.")
    gate.set()
    # The first change is shown before the end, or the text was scored at once.
    *during, end = changes_of(page, page.story, second)
    assert all(each["cancel"]["visible"] for each in during) and not end["cancel"]["visible"]
    assert "Your story" in end["result"]


def test_the_chapter_that_is_scored_is_named(own, tmp_path, monkeypatch):
    steps = []
    reach = Job.reach
    monkeypatch.setattr(Job, "reach", lambda self, *args: (steps.append(args), reach(self, *args)))
    job = own.score_book("me", written(tmp_path, "book3.epub"), ["chapter", "sentence"])
    job.future.result(LIMIT)
    shares, names = zip(*steps, strict=True)
    assert list(shares) == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    assert list(dict.fromkeys(names)) == ["Chapter 1 of 2", "Chapter 2 of 2"]


def test_a_text_that_is_not_english_is_noted_for_an_english_encoder():
    german = (
        "Der Mann lief in das Haus, und es regnete. Niemand kam, und er war die Nacht allein. " * 3
    )
    english = (
        "The man ran to the house, and it rained. Nobody came, and he was alone in the night. " * 3
    )
    for text, is_noted in ((german, True), (english, False), ("Omar lief.", False)):
        result = made(text, [(0, len(text))])
        page = reading(result, "key", True)
        assert ("does not look like English" in page) is is_noted
        assert ("Agrees best with human readers" in page) is not is_noted
        assert "does not look like English" not in reading(result, "key")


def test_a_language_may_be_named(page):
    pytest.importorskip("sentencex", reason="sentencex is not installed: .[books]")
    german = "Er kam am 3. Mai. Es regnete."
    jobs = [page.scoring.score_story("me", german, language=code) for code in ("", " DE")]
    assert [len(job.future.result(LIMIT).sentences) for job in jobs][1] == 2
    job = page.scoring.score_story("me", german, language="os:system")
    with pytest.raises(ValueError, match="the code of a language"):
        job.future.result(LIMIT)


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
    result = result_of(page, changes)
    assert (result.extent, result.approximate) == (expected.extent, expected.approximate)
    for level in LEVELS:
        scores = expected.at(level).scores_of()
        assert result.at(level).scores_of() == pytest.approx(scores, abs=1e-5)
    html = changes["result"]
    assert "Chapter 1: The &lt;Map&gt;" in html and "Salience by" in html
    assert html.count('<details class="text"') == 2 and html.count('class="scene"') == 2
    assert str(result.extract(12)) in unescape(html) and ".json" in html
    assert "json" in downloads(result) and "csv" not in downloads(result)
    assert f"Done: {result.extent}." in changes["status"]


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
    assert set(changes) == {"status", "cancel"} and str(tmp_path) not in changes["status"]
    assert message in unescape(changes["status"])
    assert "at least one level" in scored_book(page, written(tmp_path, "book.txt"), [])["status"]


def test_the_example_is_a_story_of_the_examples():
    """Which are not installed."""
    packaged = ROOT / "narrative_twins" / "app" / "haunted_stable.txt"
    example = ROOT / "examples" / "stories" / "haunted_stable.txt"
    assert packaged.read_text("utf-8") == example.read_text("utf-8")

"""The web page without a server: its HTML, its events, its queue, its errors."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import unicodedata
from functools import partial
from html import unescape
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, Story, StorySalience, score_book, score_stories
from narrative_twins.app import queue as scoring
from narrative_twins.app.page import (
    KEPT,
    SHARE,
    Page,
    Visitor,
    displayed,
    salience_curve,
    shaded_text,
)
from narrative_twins.app.queue import (
    EXACT,
    MAX_BOOK,
    MAX_WAITING,
    MAX_WAITING_ALL,
    ONE_PASS,
    Job,
    ScoringQueue,
    Work,
    book_work,
    characters_read,
    story_work,
)
from narrative_twins.encoder.passes import ForwardPasses
from narrative_twins.salience.books.result import LEVELS
from narrative_twins.salience.progress import format_duration
from narrative_twins.show.formats import FORMATS, register_format
from narrative_twins.stories.books.reading import book_of
from narrative_twins.stories.story import Window

from support.books import WRITERS, WrittenChapter
from support.parsed import Parsed
from support.processes import LIMIT, wait_until

ROOT = Path(__file__).parents[2]
TALE = "Nadia found a map.\n\nIt led to a mill. The mill was gone.\nShe laughed until it got dark."
LONG = " ".join(
    f"On day {day} Nadia walked on to the river and counted {day} boats." for day in range(40)
)
ALL = list(OPERATIONS)
ME, SOMEBODY = Visitor("here", "me"), Visitor("here", "somebody else")
CHAPTERS = [
    WrittenChapter(
        "Chapter 1: The <Map>", ["Nadia found a map. It rained.", "She laughed & left."], [1]
    ),
    WrittenChapter("Chapter 2: The Mill", ["The mill was gone. Nobody knew why. It was dark."], []),
]
TEXT, EPUB = (WRITERS[name]("A Tale", CHAPTERS) for name in ("book.txt", "book3.epub"))


@pytest.fixture(scope="module")
def shared(bert_folder):
    """A queue whose encoder is loaded once."""
    queue = ScoringQueue(bert_folder)
    assert queue.own
    yield queue
    queue.close()


@pytest.fixture
def queue(shared):
    yield shared
    for job in shared.jobs():
        job.stop()
    wait_until(lambda: not shared.jobs())


@pytest.fixture
def page(queue):
    return Page(queue, pause=0.01, any_encoder=True)


def steps_of(page, text=TALE, windows="auto", **more):
    settings = {"operations": None, "method": EXACT, **more}
    return page.score(ME, text=text, windows=windows, **settings)


def scored(page, text=TALE, **more):
    """The final changes of the page after scoring a story."""
    *_, changes = steps_of(page, text, **more)
    return changes


def scored_book(page, book, levels=LEVELS, method=ONE_PASS):
    *_, changes = page.score_book(ME, book=book, levels=list(levels), method=method)
    return changes


def sent(name: str, data: bytes) -> str:
    """A file as the browser sends it."""
    return f"{name}\n{base64.b64encode(data).decode()}"


def made(text, spans, scores=None):
    """A result made without an encoder."""
    story = Story(tuple(text[lo:hi] for lo, hi in spans), text, tuple(spans), ((0, len(spans)),))
    values = scores or [float(i) for i in range(len(spans))]
    return StorySalience(story, {"summarization": values}, 512, 0)


HOSTILE = ["<script>alert(1)</script>", "${1+1}", "{{value}}", "\0", "\ud800", "\r\n", "\r", "&lt;"]


@st.composite
def texts_with_spans(draw):
    """Any text, lone surrogates and control characters included, and some spans in it."""
    pieces = st.text(st.characters(), max_size=20) | st.sampled_from(HOSTILE)
    text = draw(st.lists(pieces, min_size=1).map("".join).filter(bool))
    cuts = draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=9))
    edges = sorted(cuts | {0, len(text)})
    return text, list(zip(edges, edges[1:], strict=False))[:: draw(st.integers(1, 2))]


@given(texts_with_spans())
@example(("<script>a</script>\0\ud800\r\n", [(0, 9), (9, 22)]))
def test_any_text_is_shown_as_text(case):
    text, spans = case
    parsed = Parsed(shaded_text(made(text, spans), "summarization"))
    # An independent implementation of `displayed`: character by character, from the end.
    expected, after = [], ""
    for char in reversed(text):
        if char == "\r":
            expected.append(" " if after == "\n" else "\n")
        else:
            control = unicodedata.category(char) == "Cc" and char not in "\t\n"
            expected.append("\ufffd" if control or 0xD800 <= ord(char) < 0xE000 else char)
        after = char
    assert parsed.text == "".join(reversed(expected)) == displayed(text)
    assert parsed.tags == ["div"] + ["span"] * len(spans)
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
    points = re.search('<polyline points="(.*?)"', salience_curve(result, "summarization"))[1]
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert heights[1] < heights[0] < heights[2], "the curve goes up with salience"


@pytest.mark.parametrize(
    ("count", "numbers"), [(1, [1]), (22, [1, 5, 10, 15, 20]), (2_000, [1, 500, 1000, 1500, 2000])]
)
def test_the_axes_of_the_curve_have_labels(count, numbers):
    result = made("a" * count, [(i, i + 1) for i in range(count)], [i / 4 for i in range(count)])
    curve = salience_curve(result, "summarization")
    labels = re.findall(r"<span[^>]*>([^<]+)</span>", curve)
    ends = ["0.000", f"{(count - 1) / 4:.3f}"] if count > 1 else ["0.000"]
    assert labels == ["salience", *ends, *map(str, numbers), "sentence"]
    assert (curve.count("<path") == count) is (count <= 100)
    assert all(0 < float(place) < 100 for place in re.findall(r'style="left:([\d.]+)%"', curve))


def test_scores_are_those_of_the_engine(page, bert_folder):
    found = scored(page, windows="2, 2")
    (result,) = score_stories([TALE], bert_folder, windows=[2, 2])
    kept = page.results[found["token"]]
    assert (kept.spans, kept.windows) == (result.spans, ((0, 2), (2, 4)))
    for name, scores in result.scores.items():
        assert kept.scores[name] == pytest.approx(scores, abs=1e-5)
    assert found["operation"] == {"choices": ALL, "value": "summarization"}
    assert found["k"] == {"maximum": 4, "value": 1} and found["results"] == {"visible": True}
    assert found["score"]["interactive"] and "4 sentences, 2 windows." in found["status"]
    assert Parsed(found["shaded"]).text == TALE and found["curve"].count('class="rule"') == 1
    assert "Agrees best with human readers" in found["advice"]
    other = page.shade(found["token"], "shifting", 2)
    assert "shaded by shifting" in other["shaded"] and other["salient"].count("<li") == 2
    assert Parsed(other["salient"]).text.startswith(str(kept.extract(2, "shifting")))
    assert "score the text again" in page.shade("gone", "shifting", 2)["status"]
    assert "was not scored by" in page.shade(found["token"], "<b>", 2)["status"]


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("sentences", ["Nadia found\r\n  a map.", "It led", "to a mill."]),
        ("lines", ["Nadia found", "a map. It led", "to a mill."]),
        ("paragraphs", ["Nadia found\r\n  a map. It led", "to a mill."]),
    ],
)
def test_a_text_is_split_into_sentences_lines_or_paragraphs(page, split, expected):
    text = "Nadia found\r\n  a map. It led\r\n \t\r\n\r\nto a mill."
    result = page.results[scored(page, text, split=split, method=ONE_PASS)["token"]]
    assert list(result.sentences) == expected and result.story.text == text


def test_truncation_and_approximation_are_noted(page):
    found = scored(page, "Nadia found a map. " * 200, method=ONE_PASS, windows="20")
    kept = page.results[found["token"]]
    assert list(kept.scores) == list(OPERATIONS)
    assert "The scores are approximate (one-pass)." in found["status"]
    assert kept.truncated and f"up to {kept.cut_tokens} of its tokens" in found["status"]
    found = scored(page, "Nadia\ud800 ran. \ud83d\ude00 It rained.", method=ONE_PASS)
    assert Parsed(found["shaded"]).text == "Nadia\ufffd ran. 😀 It rained."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": " \n"}, "There is no story yet"),
        ({"text": "\0 \0"}, "The story is empty"),
        ({"operations": []}, "Choose at least one operation"),
        ({"windows": "many"}, "neither auto, a count such as 5"),
        ({"windows": "7"}, "does not partition the 4 sentence(s)"),
        ({"encoder": "no/such encoder"}, "can't be loaded"),
        ({"text": "a" * 2_000_001}, "The text has 2,000,001 characters"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_errors_are_one_sentence(page, options, message):
    status = scored(page, **options)["status"]
    text = Parsed(status).text.strip()
    assert message in text and 'role="alert"' in status
    assert "Traceback" not in text and "\n" not in text and len(text) < 500
    assert text[0].isupper() and text[-1] in ".…)'`"


def test_unexpected_errors_are_one_sentence(page, queue, monkeypatch):
    monkeypatch.setattr(scoring, "score_stories", lambda *_, **__: {}["nothing"])
    assert "It can't be scored (KeyError" in unescape(scored(page)["status"])
    # An encoder that may not be named is not loaded.
    found = scored(Page(queue, pause=0.01), encoder="no/such encoder")
    assert "It can't be scored (KeyError" in unescape(found["status"])


@pytest.fixture
def slow(monkeypatch):
    """Makes encoders slow; returns a list of the times of their forward passes."""
    states, times = ForwardPasses.states, []

    def slow_states(self, rows):
        times.append(time.monotonic())
        time.sleep(0.02)
        return states(self, rows)

    monkeypatch.setattr(ForwardPasses, "states", slow_states)
    return times


def start(queue, text=TALE, client=""):
    return queue.start(
        partial(story_work, text=text, operations=ALL, windows="1", method=EXACT), client
    )


@pytest.mark.parametrize("how", ["cancel", "close the page"])
def test_cancelling_stops_the_forward_passes(page, slow, how):
    steps = steps_of(page, LONG, windows="1")
    found = next(found for found in steps if "left" in found["status"])
    assert found["cancel"]["visible"] and not found["score"]["interactive"]
    assert re.search(r"Scoring: \d+%, about \d+ .*<progress", found["status"], re.DOTALL)
    (job,) = page.jobs.values()
    page.cancel(SOMEBODY)
    assert not job.stopped
    if how == "cancel":
        page.cancel(ME)
        *_, found = steps
        assert found["score"]["interactive"] and "Cancelled" in found["status"]
        assert 'role="status"' in found["status"]
    else:
        steps.close()
    wait_until(job.scored.done)
    passes = len(slow)
    time.sleep(0.1)
    assert len(slow) == passes and page.jobs == {}
    assert "4 sentences" in scored(page, method=ONE_PASS)["status"], "the next can be scored"


def held(job):
    """Scores nothing until it is cancelled."""
    job.begin("Scoring")
    while not job.stopped:
        time.sleep(0.005)
    job.update(0.5)


def test_a_short_story_is_scored_while_a_long_one_is(queue, bert_folder, monkeypatch):
    """The first forward pass of the long story waits until the short ones are in the queue."""
    states, began, queued = ForwardPasses.states, threading.Event(), threading.Event()

    def gated(self, rows):
        began.set()
        assert queued.wait(LIMIT)
        return states(self, rows)

    monkeypatch.setattr(ForwardPasses, "states", gated)
    text = " ".join(LONG.split(". ")[n] + "." for n in range(12))
    ended = []
    jobs = {}

    def add(name, text, method):
        jobs[name] = queue.start(partial(story_work, text=text, windows="1", method=method), name)
        jobs[name].scored.add_done_callback(lambda _: ended.append(name))

    add("long", text, EXACT)
    assert began.wait(LIMIT)
    add("another long", text, EXACT)
    add("short", TALE, EXACT)
    add("one pass", TALE, ONE_PASS)
    before = {
        name: [other.client for other in queue.before(job)]
        for name, job in jobs.items()
        if name != "long"
    }
    assert before == {
        "short": [],
        "one pass": ["short"],
        "another long": ["long", "short", "one pass"],
    }
    queued.set()
    found = {name: job.scored.result(LIMIT) for name, job in jobs.items()}
    assert ended == ["short", "one pass", "long", "another long"]
    for name, result in found.items():
        options = {"windows": 1, "approximate": "one-pass" if name == "one pass" else None}
        (expected,) = score_stories([result.story.text], bert_folder, **options)
        for operation, scores in expected.scores.items():
            assert result.scores[operation] == pytest.approx(scores, abs=1e-5)


def test_a_long_story_is_scored_at_least_half_of_the_time(queue, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(scoring.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(queue, "pace", None)
    ended = []

    def short(job):
        now[0] += 3.0
        ended.append(now[0])

    def long(job):
        job.begin("Scoring")
        for step in range(1, 9):
            queue.start(lambda _: Work(short, 1.0), f"client {step}")
            now[0] += 1.0
            job.update(step / 10)
        assert job.seconds_left == pytest.approx(2.0), "time aside does not count"

    queue.start(lambda _: Work(long, 1e9)).scored.result(LIMIT)
    wait_until(lambda: len(ended) == 8)
    # Aside after the first step for 3 s, then after 3 more steps for the 3 that came in them, ...
    assert ended[:4] == [1004.0, 1010.0, 1013.0, 1016.0]


def test_the_place_in_the_queue_and_the_time_are_shown(page, queue, monkeypatch):
    monkeypatch.setattr(queue, "pace", None)
    running = queue.start(lambda _: Work(held, 9e6))
    wait_until(lambda: running.phase)
    steps = steps_of(page, LONG, windows="1")
    assert "Waiting for its turn, after 1 other …" in next(steps)["status"]
    short = steps_of(page)
    assert "Waiting for its turn, as the next …" in next(short)["status"]
    assert "after 2 others …" in next(steps)["status"]
    queue.pace = 1e-5  # 90 seconds for the first
    assert re.search("after 2 others, about [2-9] minutes left …", next(steps)["status"])
    assert "as the next, about 1 second left …" in next(short)["status"]
    short.close()
    assert "after 1 other, " in next(steps)["status"], "its place is free at once"
    running.stop()
    wait_until(lambda: running.scored.done())
    assert "after" not in next(steps)["status"]
    steps.close()
    with pytest.raises(ValueError, match="Cancelled"):
        assert running.result


def test_the_pace_is_measured(queue, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(scoring.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(queue, "pace", None)
    job = Job(queue)
    job.work = Work(held, 3_000.0)
    job.begin("Scoring")
    now[0] += 0.9
    job.update(0.5)
    assert queue.pace is None, "too soon"
    now[0] += 0.6
    job.update(0.5)
    assert queue.pace == pytest.approx(1e-3)


def test_more_sentences_than_the_limit_are_refused_before_the_queue(page, queue, monkeypatch):
    monkeypatch.setattr(queue, "max_sentences", 3)
    monkeypatch.setattr(queue, "_score_next", lambda: pytest.fail("queued"))
    message = "The story has 4 sentences, more than the limit of 3; use the command `narrative-"
    assert message in unescape(scored(page)["status"])
    with pytest.raises(ValueError, match="more than the limit of 3"):
        next(page.score_data(ME, text=TALE))
    assert "The book has" in scored_book(page, sent("book.txt", TEXT))["status"]
    assert not queue.jobs()


def test_a_limited_number_of_stories_waits(bert_folder):
    queue = ScoringQueue(bert_folder)
    running = queue.start(lambda _: Work(held, 1.0), "a")
    wait_until(lambda: running.phase)
    for n in range(MAX_WAITING_ALL - 1):
        start(queue, client=f"client {n // MAX_WAITING}")
    with pytest.raises(ValueError, match="4 of your stories are waiting already"):
        start(queue, client="client 0")
    last = start(queue, client="a")
    with pytest.raises(ValueError, match="Too many stories are waiting"):
        start(queue, client="one more")
    last.stop()
    jobs = [start(queue, client="one more"), *queue.jobs()]
    queue.close()
    assert all(job.scored.done() for job in jobs) and not queue.jobs()


@given(
    texts=st.lists(st.sampled_from([TALE, LONG, "Nadia ran."]), min_size=1, max_size=3),
    windows=st.sampled_from(["auto", 1]),
    context=st.sampled_from([None, 64, 512]),
)
def test_what_is_read_is_estimated(texts, windows, context):
    """Compared with the texts of all orders, written out, if the story fits the context."""
    stories = [Story.parse(text, windows) for text in texts]
    read = 0
    for story in stories:
        for lo, hi in story.windows:
            for operation in OPERATIONS.values():
                for order in operation.orders(Window(0, lo, hi, len(story))):
                    read += sum(len(story.sentences[n]) for n in order)
    options = {"operations": None, "approximate": None}
    found = characters_read(stories, options, context)
    if context is None and len(set(texts)) == 1:
        assert found == pytest.approx(read, rel=0.15)
    assert found > 0 and characters_read(stories, options, None) >= found
    fast = characters_read(stories, options | {"approximate": "one-pass"}, context)
    assert fast == 2 * sum(len(sentence) for story in stories for sentence in story.sentences)


@pytest.mark.parametrize(("spent", "share"), [(15, 0.1), (101, 0.01), (99, 0.5)])
def test_what_takes_too_long_is_stopped(page, queue, monkeypatch, spent, share):
    """When its time can be estimated."""
    now = [1000.0]
    monkeypatch.setattr(scoring.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(queue, "patience", 100.0)
    monkeypatch.setattr(queue, "pace", None)
    job = Job(queue)
    job.work = Work(held, 1.0)
    job.begin("Scoring")
    job.update(0.01)
    assert job.seconds_left is None
    now[0] += 9
    job.update(0.03)  # not yet, since the first passes may be slow
    assert job.seconds_left == pytest.approx(291)
    now[0] += spent - 9
    with pytest.raises(ValueError, match="more than 2 minutes to score on this machine; use more"):
        job.update(share)
    monkeypatch.setattr(queue, "patience", -1.0)
    assert "choose one pass, or use the command" in scored(page)["status"]


def test_format_duration():
    times = {0.2: "1 second", 12.4: "12 seconds", 58: "1 minute", 150: "2 minutes", 9e3: "2 hours"}
    assert {seconds: format_duration(seconds) for seconds in times} == times


def test_a_limited_number_of_encoders_and_results_is_kept(page, queue, bert_folder, tmp_path):
    names = [tmp_path / f"encoder{n}" for n in range(3)]
    for name in names:
        name.symlink_to(bert_folder)
    others = [queue.named(str(name)) for name in names]
    assert queue.named(str(names[2])) is others[2] is not others[1]
    assert queue.named(str(names[0])) is not others[0]
    result = made("Nadia ran.", [(0, 10)])
    tokens = [page.keep(result) for _ in range(KEPT + 1)]
    assert list(page.results) == tokens[1:]


def test_a_format_that_is_registered_can_be_downloaded(page, monkeypatch):
    monkeypatch.setitem(FORMATS, "counts", None)

    @register_format("counts", "text/x-counts")
    def counts(results, layout):
        for result in results:
            yield f"{len(result)}\n"

    found = scored(page, method=ONE_PASS)
    assert f"download/{found['token']}.counts" in found["downloads"]
    assert list(page.download(found["token"], "counts")) == ["4\n"]
    with pytest.raises(KeyError):
        page.download(found["token"], "text")


@pytest.mark.parametrize(("name", "method"), [("book.txt", ONE_PASS), ("book3.epub", "exact")])
def test_scores_of_a_book_are_those_of_score_book(page, name, method, bert_folder):
    data = WRITERS[name]("A Tale", CHAPTERS)
    changes = scored_book(page, sent(name, data), method=method)
    approximate = "one-pass" if method == ONE_PASS else None
    expected = score_book(book_of(name, data), bert_folder, approximate=approximate)
    found = page.results[changes["token"]]
    assert found.extent == expected.extent and found.approximate == expected.approximate
    for level in LEVELS:
        assert found.at(level).scores_of() == pytest.approx(
            expected.at(level).scores_of(), abs=1e-5
        )
    assert changes["contents"].count("<details>") == 2 + 2, "two chapters, one with two scenes"
    assert "Chapter 1: The &lt;Map&gt;" in changes["contents"]
    assert "Shaded by" in changes["contents"]
    assert changes["score"]["interactive"] and f"{found.extent}." in changes["status"]


def test_extract_and_downloads_of_a_book(page):
    changes = scored_book(page, sent("book.txt", TEXT))
    token, result = changes["token"], page.results[changes["token"]]

    def shown(html: str) -> str:
        return unescape(re.search(r'<p class="extract">(.*?)</p>', html, re.DOTALL)[1])

    assert shown(changes["extract"]) == str(result.extract(share=SHARE / 100))
    assert shown(page.extract(token, 50)["extract"]) == str(result.extract(share=0.5))
    assert json.loads("".join(page.download(token, "json"))) == result.json()
    assert "<details>" in "".join(page.download(token, "html"))
    with pytest.raises(KeyError):
        page.download(token, "csv")
    assert "no longer stored" in page.extract("nothing", 10)["status"]
    assert "no longer stored" in page.shade(token, "deletion", 1)["status"]
    changes = scored_book(page, sent("book.txt", TEXT), ["chapter"])
    assert "An extract needs the level of sentences" in changes["extract"]


@pytest.mark.parametrize(
    ("book", "levels", "message"),
    [
        ("", LEVELS, "There is no book yet"),
        (sent("book.txt", TEXT), [], "Choose at least one level"),
        ("book.txt\n<script>", LEVELS, "Only a part of the file"),
        (sent("../../etc/passwd", b"root"), LEVELS, "passwd is none of .txt, .text"),
        (sent("book.epub", b"no zip"), LEVELS, "Book.epub: "),
        (sent("book.docx", EPUB), LEVELS, "Book.docx: "),
        (sent("book.txt", b"\n \n"), LEVELS, "has no text of a story"),
        (sent("book.txt", b"a" * (MAX_BOOK + 1)), LEVELS, "more than 10,000,000 bytes"),
        (sent("book.txt", TEXT * 2), LEVELS, "The book has 13 sentences, more than the limit of 9"),
    ],
    ids=lambda value: value[:20].split("\n")[0] if isinstance(value, str) else None,
)
def test_books_that_are_refused(page, book, levels, message, monkeypatch):
    monkeypatch.setattr(page.queue, "max_sentences", 9)
    changes = scored_book(page, book, levels)
    status = unescape(changes["status"])
    assert message in status and 'role="alert"' in status and "token" not in changes
    assert "Traceback" not in status


def test_a_cancelled_book_frees_the_queue(page):
    book = sent("book.txt", TEXT * 100)
    steps = page.score_book(ME, book=book, levels=list(LEVELS), method="exact")
    next(steps)
    page.cancel(ME)
    *_, last = steps
    assert "Cancelled" in last["status"] and last["score"]["interactive"]
    assert "token" in scored_book(page, sent("book.txt", TEXT))


@pytest.fixture
def reading(monkeypatch):
    """Books are read until they are cancelled; returns what happens to them."""
    events = []

    def read(name, data, check):
        events.append(f"{name} begins")
        try:
            while True:
                check()
                time.sleep(0.005)
        finally:
            events.append(f"{name} ends")

    monkeypatch.setattr(scoring, "read_bounded", read)
    return events


@pytest.mark.parametrize("how", ["cancel", "close the page", "close the server"])
def test_a_book_is_read_until_it_is_cancelled(reading, how):
    own = ScoringQueue()
    page, events = Page(own, pause=0.01), []
    steps = page.score_book(ME, book=sent("a.txt", b"A."), levels=LEVELS, method=ONE_PASS)
    while "Reading the book …" not in (found := next(steps))["status"]:
        pass
    assert found["cancel"]["visible"] and reading == ["a.txt begins"]
    own.pace = 1e-5
    assert "Reading the book …" in next(steps)["status"], "no time is estimated"
    ended = own.start(lambda _: Work(lambda _: events.append("a short story"), 1.0))
    ended.scored.result(LIMIT)  # while the book is read
    if how == "close the page":
        steps.close()
    else:
        page.cancel(ME) if how == "cancel" else own.close()
        assert "Cancelled" in list(steps)[-1]["status"]
    wait_until(lambda: reading == ["a.txt begins", "a.txt ends"])
    assert events == ["a short story"] and not own.jobs() and not page.jobs
    own.close()


def test_a_limited_number_of_books_is_read_at_a_time(reading):
    own = ScoringQueue()
    jobs = []
    for name in "abc":
        book = sent(f"{name}.txt", b"A.")
        read = partial(book_work, book=book, levels=LEVELS, method=ONE_PASS)
        jobs.append(own.start(read, in_thread=True))
    wait_until(lambda: sorted(reading) == ["a.txt begins", "b.txt begins"])
    jobs[0].stop()
    wait_until(lambda: reading[2:] == ["a.txt ends", "c.txt begins"])
    own.close()
    assert len(reading) == 6 and all(job.stopped for job in jobs)


def test_the_example_is_a_story_of_the_examples():
    """Which are not installed."""
    own = ROOT / "narrative_twins" / "app" / "haunted_stable.txt"
    assert own.read_text() == (ROOT / "examples" / "stories" / "haunted_stable.txt").read_text()

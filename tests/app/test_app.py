"""The web page without a browser: its HTML, its events, its errors, and the command that serves
it."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import socket
import subprocess
import threading
import time
import unicodedata
from html.parser import HTMLParser
from importlib.resources import files
from itertools import islice, permutations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, Story, StoryEncoder, StorySalience, score_stories
from narrative_twins.app import estimates
from narrative_twins.app.estimates import LoadedEncoder, format_duration
from narrative_twins.app.guard import POLICY
from narrative_twins.app.guide import ADVICE, guide
from narrative_twins.app.page import KEPT, ONE_PASS, Page, Visitor
from narrative_twins.app.queue import MAX_WAITING, MAX_WAITING_ALL, ScoringQueue
from narrative_twins.app.requests import ScoreRequest
from narrative_twins.app.server import application
from narrative_twins.commands.cli import main
from narrative_twins.show.shaded import displayed, salience_curve, salient_list, shaded_text

from support.processes import COMMAND, LIMIT, run_python, started, wait_until

ROOT = Path(__file__).parents[2]
TALE = "Nadia found a map.\n\nIt led to a mill. The mill was gone.\nShe laughed until it got dark."
ALL = list(OPERATIONS)
ME, SOMEBODY = Visitor("here", "me"), Visitor("here", "somebody else")


@pytest.fixture
def queue(bert_folder):
    return ScoringQueue(bert_folder)


@pytest.fixture
def page(queue):
    return Page(queue, pause=0.01, any_encoder=True)


def scored(
    page,
    text=TALE,
    operations=ALL,
    windows="auto",
    method="exact",
    split="sentences",
    encoder="",
    visitor=ME,
):
    """The final changes of the page after scoring a story."""
    *_, changes = page.score(visitor, text, operations, windows, method, split, encoder)
    return changes


def made(text, spans, scores=None):
    """A result made without an encoder."""
    story = Story(tuple(text[lo:hi] for lo, hi in spans), text, tuple(spans), ((0, len(spans)),))
    return StorySalience(
        story, {"summarization": scores or [float(i) for i in range(len(spans))]}, 512, 0
    )


class Parsed(HTMLParser):
    """Parsed HTML: its text content and its elements."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.text, self.elements, self.open = "", [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    handle_decl = handle_pi = unknown_decl = handle_comment


@st.composite
def texts_with_spans(draw):
    """Any text, lone surrogates and control characters included, and some spans in it."""
    special = st.sampled_from(
        [
            "<script>alert(1)</script>",
            "${1+1}",
            "{{value}}",
            "\0",
            "\ud800",
            "\r\n",
            "\r",
            "&lt;",
            "שלום",
        ]
    )
    text = draw(
        st.lists(st.text(st.characters(), max_size=20) | special, min_size=1)
        .map("".join)
        .filter(bool)
    )
    edges = sorted(
        draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=9)) | {0, len(text)}
    )
    return text, list(zip(edges, edges[1:], strict=False))[:: draw(st.integers(1, 2))]


@given(texts_with_spans())
@example(("<script>a</script>\0\ud800\r\n", [(0, 9), (9, 22)]))
def test_any_text_is_shown_as_text(case):
    text, spans = case
    result = made(text, spans)
    parsed = Parsed(shaded_text(result))
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
    assert not parsed.open
    assert [tag for tag, _ in parsed.elements] == ["div"] + ["span"] * len(spans)
    names = {"class", "tabindex", "style", "data-scores", "aria-description"}
    assert all(set(attributes) == names for _, attributes in parsed.elements[1:])
    parsed = Parsed(salient_list(result, 3))
    assert {tag for tag, _ in parsed.elements} == {"ol", "li", "span"}


def test_sentences_are_shaded_and_have_their_scores():
    result = made("One. Two. Three.", [(0, 4), (5, 9), (10, 16)], [0.5, 0.9, 0.1])
    (_, first), (_, second), (_, third) = Parsed(shaded_text(result)).elements[1:]
    assert second["class"] == "sentence top" and first["class"] == third["class"] == "sentence"
    assert [sentence["tabindex"] for sentence in (first, second, third)] == ["0", "-1", "-1"]
    assert third["style"] == "--light:rgb(255, 255, 255);--dark:rgb(33, 30, 27)"
    assert first["data-scores"] == "Sentence 1 of 3, rank 2 by summarization: summarization 0.500"
    assert 'value="1"' in salient_list(result, 2) and 'value="3"' not in salient_list(result, 2)
    with pytest.raises(ValueError, match="'deletion' was not scored"):
        shaded_text(result, "deletion")


def luminance(colour):
    """The relative luminance of WCAG 2."""
    parts = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (c / 255 for c in colour)
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def test_text_has_contrast_on_every_shade():
    result = made("a" * 101, [(i, i + 1) for i in range(101)])
    for _, attributes in Parsed(shaded_text(result)).elements[1:]:
        light, dark = re.fullmatch(
            r"--light:rgb\((.*)\);--dark:rgb\((.*)\)", attributes["style"]
        ).groups()
        for colour, ink in ((light, (0x1B, 0x1B, 0x1F)), (dark, (0xEC, 0xE7, 0xDF))):
            low, high = sorted((luminance(map(int, colour.split(","))), luminance(ink)))
            assert (high + 0.05) / (low + 0.05) >= 4.5


def test_the_curve_goes_up_with_salience_and_shows_windows(encoder):
    result = made("One. Two. Three.", [(0, 4), (5, 9), (10, 16)], [0.5, 0.9, 0.1])
    (points,) = [
        attributes["points"]
        for tag, attributes in Parsed(salience_curve(result)).elements
        if tag == "polyline"
    ]
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert heights[1] < heights[0] < heights[2]
    (result,) = score_stories([TALE], encoder, windows=[1, 2, 1])
    assert salience_curve(result).count('class="rule"') == 2
    assert salience_curve(made("a" * 200, [(i, i + 1) for i in range(200)])).count("<path") == 0


@pytest.mark.parametrize(
    ("count", "numbers"),
    [
        (1, ["1"]),
        (5, ["1", "2", "3", "4", "5"]),
        (22, ["1", "5", "10", "15", "20"]),
        (2_000, ["1", "500", "1000", "1500", "2000"]),
    ],
)
def test_the_axes_of_the_curve_have_labels(count, numbers):
    result = made("a" * count, [(i, i + 1) for i in range(count)], [i / 4 for i in range(count)])
    labels = re.findall(r"<span[^>]*>([^<]+)</span>", salience_curve(result))
    ends = ["0.000", f"{(count - 1) / 4:.3f}"] if count > 1 else ["0.000"]
    assert labels == ["salience", *ends, *numbers, "sentence"]
    places = re.findall(r'style="left:([\d.]+)%"', salience_curve(result))
    assert all(0 < float(place) < 100 for place in places) and len(places) == len(numbers)


def test_the_page_shows_the_extract_by_the_chosen_operation(page):
    found = scored(page)
    result = page.results[found["token"]]
    for k, operation in ((1, "summarization"), (2, "shifting")):
        shown = Parsed(page.shade(found["token"], operation, k)["salient"])
        assert shown.text.startswith(str(result.extract(k, operation)))
        assert [tag for tag, _ in shown.elements].count("li") == k


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_text_is_split_into_sentences_lines_or_paragraphs(page, line_end):
    text = line_end.join(["Nadia found", "  a map. It led", " \t", "", "to a mill."])
    units = {
        "sentences": [f"Nadia found{line_end}  a map.", "It led", "to a mill."],
        "lines": ["Nadia found", "a map. It led", "to a mill."],
        "paragraphs": [f"Nadia found{line_end}  a map. It led", "to a mill."],
    }
    for split, expected in units.items():
        found = scored(page, text, split=split, method=ONE_PASS)
        result = page.results[found["token"]]
        assert list(result.sentences) == expected and result.story.text == text
    assert "not &#x27;words&#x27;" in scored(page, text, split="words")["status"]


def test_every_operation_is_explained_with_advice(page):
    text = Parsed(guide()).text
    for name, operation in OPERATIONS.items():
        assert name in text and operation.meaning[1:] in text and ADVICE[name] in text
    found = scored(page)
    assert ADVICE["summarization"] in Parsed(found["advice"]).text
    assert (
        ADVICE["disruption"] in Parsed(page.shade(found["token"], "disruption", 1)["advice"]).text
    )


def test_the_example_is_a_story_of_the_examples():
    """Which are not installed."""
    example = (
        files("narrative_twins.app").joinpath("haunted_stable.txt").read_text(encoding="utf-8")
    )
    assert example == (ROOT / "examples" / "stories" / "haunted_stable.txt").read_text(
        encoding="utf-8"
    )


def test_scores_are_those_of_the_engine(page, bert_folder):
    found = scored(page, windows="2, 2")
    (result,) = score_stories([TALE], bert_folder, windows=[2, 2])
    kept = page.results[found["token"]]
    assert (kept.sentences, kept.spans, kept.windows) == (
        result.sentences,
        result.spans,
        ((0, 2), (2, 4)),
    )
    for name, scores in result.scores.items():
        assert kept.scores[name] == pytest.approx(scores, abs=1e-5)
    assert found["operation"] == (ALL, "summarization") and found["k"] == (4, 1)
    assert found["busy"] is False and "4 sentences, 2 windows." in found["status"]
    assert Parsed(found["shaded"]).text == TALE
    other = page.shade(found["token"], "shifting", 2)
    assert "shaded by shifting" in other["shaded"] and other["salient"].count("<li") == 2
    assert "score the text again" in page.shade("gone", "shifting", 2)["status"]


def test_truncation_and_approximation_are_noted(page, monkeypatch):
    found = scored(page, "Nadia found a map. " * 200, method=ONE_PASS, windows="20")
    kept = page.results[found["token"]]
    assert list(kept.scores) == ["deletion", "disruption", "summarization"]
    assert "The scores are approximate (one-pass)." in found["status"]
    assert kept.truncated and f"up to {kept.cut_tokens} of its tokens" in found["status"]
    assert "approximate" not in scored(page)["status"] and "truncated" not in scored(page)["status"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": " \n"}, "There is no story yet"),
        ({"text": "\0 \0"}, "The story is empty"),
        ({"operations": []}, "Choose at least one operation"),
        ({"windows": "many"}, "neither auto, a count such as 5"),
        ({"windows": "7"}, "a count of windows goes from 1 to 4"),
        ({"windows": "1,1"}, "does not partition the 4 sentence(s)"),
        ({"encoder": "no/such encoder"}, "can&#x27;t be loaded"),
        ({"operations": ["shifting"], "method": ONE_PASS}, "Shifting has no one-pass form"),
        ({"text": "a" * 2_000_001}, "The text has 2,000,001 characters"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_errors_are_one_sentence(page, options, message):
    status = scored(page, **options)["status"]
    assert message in status and 'role="alert"' in status
    text = Parsed(status).text
    assert "Traceback" not in text and "\n" not in text and len(text) < 500
    assert text[0].isupper() and text.rstrip()[-1] in ".…)'`"
    assert scored(page)["token"] in page.results, "the next story can be scored"


def test_unexpected_errors_are_one_sentence(page, monkeypatch):
    monkeypatch.setattr(ScoringQueue, "load", lambda self, name=None: {}["nothing"])
    assert "It can&#x27;t be scored (KeyError" in scored(page)["status"]


def test_lone_surrogates_are_replaced(page):
    found = scored(page, "Nadia\ud800 ran. \ud83d\ude00 It rained.")
    assert Parsed(found["shaded"]).text == "Nadia\ufffd ran. 😀 It rained."


@pytest.fixture
def slow(monkeypatch):
    """Makes encoders slow; returns a list of the times of their forward passes."""
    from narrative_twins.encoder.passes import ForwardPasses

    states, times = ForwardPasses.states, []

    def slow_states(self, rows):
        times.append(time.monotonic())
        time.sleep(0.02)
        return states(self, rows)

    monkeypatch.setattr(ForwardPasses, "states", slow_states)
    return times


LONG = " ".join(
    f"On day {day} Nadia walked on to the river and counted {day} boats." for day in range(40)
)


def test_cancelling_stops_the_forward_passes(page, slow):
    steps = page.score(ME, LONG, ALL, "1", "exact")
    for found in steps:
        if "Scoring" in found["status"]:
            break
    assert found["busy"] and "about" in found["status"] and "<progress" in found["status"]
    (job,) = page.jobs.values()
    page.cancel(SOMEBODY)
    assert not job.stopped
    page.cancel(ME)
    *_, found = steps
    assert found["busy"] is False and "Cancelled" in found["status"]
    assert job.ended.wait(LIMIT) and job.result is None
    passes = len(slow)
    time.sleep(0.2)
    assert len(slow) == passes
    assert page.jobs == {}
    # The next story can be scored.
    assert "4 sentences" in scored(page)["status"]


def test_closing_the_page_stops_the_scoring(page, slow):
    steps = page.score(ME, LONG, ALL, "1", "exact")
    next(steps)
    (job,) = page.jobs.values()
    steps.close()
    assert job.ended.wait(LIMIT) and job.result is None


def test_stories_are_scored_one_at_a_time_and_waiting_jobs_can_be_cancelled(queue, slow):
    first = queue.start(ScoreRequest(LONG, ALL, 1))
    wait_until(lambda: first.began)
    second, third = queue.start(ScoreRequest(TALE, ALL)), queue.start(ScoreRequest(TALE, ALL))
    second.stop()
    assert second.ended.wait(LIMIT) and second.result is None
    assert third.phase == "Waiting for its turn" and not third.ended.is_set()
    first.stop()
    assert third.ended.wait(LIMIT) and len(third.result) == 4


def test_clients_take_turns(queue, slow):
    first = queue.start(ScoreRequest(LONG, ALL, 1), "a")
    wait_until(lambda: first.began)
    many = [queue.start(ScoreRequest(TALE, ALL), "a") for _ in range(MAX_WAITING)]
    with pytest.raises(ValueError, match="4 of your stories are waiting already"):
        queue.start(ScoreRequest(TALE, ALL), "a")
    other = queue.start(ScoreRequest(TALE, ALL), "b")
    first.stop()
    assert other.ended.wait(LIMIT) and len(other.result) == 4
    assert not many[1].ended.is_set(), "at most one story of the first client was scored before"
    many[2].stop()
    queue.start(ScoreRequest(TALE, ALL), "a").stop()
    assert many[3].ended.wait(LIMIT) and many[3].result is not None and many[2].result is None


def test_a_limited_number_of_stories_waits(queue, slow):
    running = queue.start(ScoreRequest(LONG, ALL, 1), "a")
    wait_until(lambda: running.began)
    jobs = [queue.start(ScoreRequest(TALE, ALL), f"client {n}") for n in range(MAX_WAITING_ALL)]
    with pytest.raises(ValueError, match="Too many stories are waiting"):
        queue.start(ScoreRequest(TALE, ALL), "one more")
    jobs[0].stop()
    queue.start(ScoreRequest(TALE, ALL), "one more")
    queue.close()
    with pytest.raises(ValueError, match="Too many stories are waiting"):
        queue.start(ScoreRequest(TALE, ALL), "too late")


def test_long_estimates_are_made_by_the_present_speed(encoder, monkeypatch):
    """Measured under load, the speed was too low."""
    speeds = [10.0, 1e7]
    monkeypatch.setattr(estimates, "measured_speed", lambda encoder, runs=3: speeds.pop(0))
    loaded = LoadedEncoder(encoder)
    story, operations = Story.parse(LONG, 1), estimates.resolve_operations()
    assert loaded.seconds(operations, story, None, patience=60.0) < 1
    assert loaded.seconds(operations, story, None, patience=60.0) < 1 and speeds == []
    loaded.speed, speeds[:] = 10.0, [20.0]
    with pytest.raises(
        ValueError, match="take more than 1 minute to score exactly on this machine"
    ):
        loaded.seconds(operations, story, None, patience=60.0)
    assert loaded.speed == 20.0


def test_closing_the_queue_ends_all_jobs(queue, slow):
    jobs = [queue.start(ScoreRequest(LONG, ALL, 1)) for _ in range(3)]
    wait_until(lambda: any(job.began for job in jobs))
    queue.close()
    assert all(job.ended.is_set() and job.result is None for job in jobs)


def test_stories_that_take_too_long_are_refused_with_hints(bert_folder, monkeypatch):
    monkeypatch.setattr(estimates, "measured_speed", lambda encoder, runs=3: 20_000.0)
    queue = ScoringQueue(bert_folder, patience=1.0)
    text = " ".join(f"Nadia ran on {n}." for n in range(2_000))
    job = queue.start(ScoreRequest(text, ALL, 1))
    assert job.ended.wait(LIMIT)
    assert (
        "Windows of up to 2,000 sentences take more than 1 second to score exactly" in job.problem
    )
    assert "choose one pass" in job.problem and "leave out shifting" not in job.problem
    queue.patience = 600.0
    job = queue.start(ScoreRequest(" ".join(f"Nadia ran on {n}." for n in range(200)), ALL, 1))
    assert job.ended.wait(LIMIT)
    assert "use more windows ('auto' takes" in job.problem and "leave out shifting (" in job.problem


def test_the_workload_is_the_number_of_tokens_read(encoder, monkeypatch):
    """Special tokens apart; and it is not counted beyond the limit."""
    from narrative_twins.salience.operations import resolve_operations
    from narrative_twins.salience.plans import workload

    words = ["Nadia", "the", "old", "mill", "ran"]
    story, rows = (
        Story.parse([" ".join(order) + "." for order in islice(permutations(words), 40)], 8),
        [],
    )
    states = type(encoder.passes).states
    monkeypatch.setattr(
        type(encoder.passes), "states", lambda self, read: rows.extend(read) or states(self, read)
    )
    list(score_stories([story], encoder, on_truncation="ignore"))
    tokens = encoder.tokenize(story.sentences)
    found = workload(resolve_operations(), tokens, story.windows, 10**9)
    assert found == pytest.approx(sum(map(len, rows)), rel=0.05)
    assert 5000 < workload(resolve_operations(), tokens, story.windows, 5000) < 6000


def test_a_limited_number_of_encoders_is_kept(queue, bert_folder, tmp_path):
    own = queue.load()
    names = []
    for n in range(4):
        link = tmp_path / f"encoder{n}"
        link.symlink_to(bert_folder)
        names.append(str(link))
    others = [queue.load(name) for name in names]
    assert queue.load() is own
    assert queue.load(names[3]) is others[3] and queue.load(names[2]) is others[2]
    assert len(queue._loaded) == 3
    assert queue.load(names[0]) is not others[0]


def test_a_limited_number_of_results_is_kept(page):
    tokens = [scored(page, "Nadia ran.")["token"] for _ in range(KEPT + 1)]
    assert list(page.results) == tokens[1:]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 second"),
        (12.4, "12 seconds"),
        (58, "1 minute"),
        (150, "2 minutes"),
        (3300, "1 hour"),
        (9000, "2 hours"),
    ],
)
def test_format_duration(seconds, text):
    assert format_duration(seconds) == text


@pytest.fixture
def client(page):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    from starlette.testclient import TestClient

    return TestClient(application(page), base_url="http://localhost")


def test_downloads_are_the_output_of_the_command(page, client, tmp_path, bert_folder, capsys):
    token = scored(page)["token"]
    story = tmp_path / "tale.txt"
    story.write_text(TALE)
    for form in ("json", "csv", "html"):
        response = client.get(f"/download/{token}.{form}")
        assert response.headers["content-disposition"] == f"attachment; filename=salience.{form}"
        assert main(["score", str(story), "--model", bert_folder, "--format", form]) == 0
        expected = capsys.readouterr().out
        if form == "json":
            (row,), (other,) = response.json(), json.loads(expected)
            assert row["sentences"] == other["sentences"] and row["spans"] == other["spans"]
        elif form == "csv":
            rows, others = (
                list(csv.reader(io.StringIO(text))) for text in (response.text, expected)
            )
            assert [row[:6] for row in rows] == [row[:6] for row in others] and rows[0] == others[0]
        else:
            assert (
                response.text.startswith("<!doctype html>")
                and "She laughed until it got dark." in response.text
            )
    for name in ("nothing.json", f"{token}.exe", token):
        assert client.get(f"/download/{name}").status_code == 404


def test_every_response_has_the_content_security_policy(client):
    for path in ("/", "/theme.css", "/download/nothing.json", "/nowhere"):
        assert client.get(path).headers["content-security-policy"] == POLICY
    assert "http" not in POLICY and "*" not in POLICY


def config_of(client):
    """The page's configuration, which is part of its HTML."""
    return json.loads(
        re.search(r"window.gradio_config = ({.*?});?</script>", client.get("/").text)[1]
    )


def test_the_page_has_one_endpoint_and_no_external_links(client):
    config = config_of(client)
    assert not config["analytics_enabled"] and config["footer_links"] == []
    assert [
        event["api_name"]
        for event in config["dependencies"]
        if event["api_visibility"] != "private"
    ] == ["score"]
    assert all(
        url.startswith(("data:", '"data:'))
        for url in re.findall(r"url\((.{6})", client.get("/theme.css").text)
    )


def test_there_is_a_field_for_an_encoder_only_if_it_may_be_named(page):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    from starlette.testclient import TestClient

    for page.any_encoder in (True, False):
        config = config_of(TestClient(application(page), base_url="http://localhost"))
        labels = [part["props"].get("label") for part in config["components"]]
        assert ("Encoder" in labels) is page.any_encoder


def test_an_encoder_that_may_not_be_named_is_not_loaded(queue):
    found = scored(Page(queue, pause=0.01), encoder="no/such encoder")
    assert "4 sentences" in found["status"]


def test_building_the_page_uses_no_network(page, monkeypatch):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    requested = []
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **more: requested.append(host) or []
    )
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: requested.append(address))
    before = threading.active_count()
    application(page)
    time.sleep(0.3)
    assert requested == [] and threading.active_count() <= before


def test_the_command_serves_until_ctrl_c(bert_folder):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    import httpx

    command = [COMMAND, "app", "--port", "0", "--model", bert_folder]
    with started(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        line = process.stdout.readline()
        assert line.startswith("The page is at http://127.0.0.1:") and "Ctrl-C" in line
        address = line.split()[4]
        assert "Narrative salience" in httpx.get(address, trust_env=False).text
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert out == "" and errors == "narrative-twins: interrupted\n"


def test_a_port_that_is_taken(bert_folder, capsys):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["app", "--model", bert_folder, "--port", str(port)]) == 1
    assert f"can't use port {port} of 127.0.0.1" in capsys.readouterr().err
    assert main(["app", "--model", bert_folder, "--host", "no.such.host.invalid"]) == 1
    assert "choose another --port or --host" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["70000", "-1", "http"])
def test_invalid_ports(port, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["app", "--port", port])
    assert stop.value.code == 2 and "port" in capsys.readouterr().err


def test_a_missing_encoder(capsys):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    assert main(["app", "--model", "no/such"]) == 1
    assert "encoder 'no/such' can't be loaded" in capsys.readouterr().err


def test_without_gradio_the_error_names_the_extra(monkeypatch, capsys):
    from importlib import util

    find = util.find_spec
    monkeypatch.setattr(
        util, "find_spec", lambda name, *rest: None if name == "gradio" else find(name, *rest)
    )
    assert main(["app"]) == 1
    assert (
        capsys.readouterr().err
        == "narrative-twins: the page needs gradio: pip install narrative_twins[demo]\n"
    )


def test_importing_the_package_does_not_import_gradio():
    code = "import sys, narrative_twins; sys.exit('gradio' in sys.modules)"
    run_python("-c", code)


def test_loading_measures_the_speed_of_the_encoder(bert_folder):
    assert ScoringQueue(bert_folder).load().speed > 0
    assert isinstance(ScoringQueue(bert_folder).load().encoder, StoryEncoder)

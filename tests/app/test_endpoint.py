"""The endpoint `/score` of the web page: programs score stories by `gradio_client`."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from narrative_twins import OPERATIONS, score_stories
from narrative_twins.app.guard import CANCEL, EVENTS, MAX_BODY
from narrative_twins.app.page import Page
from narrative_twins.app.queue import MAX_WAITING, ScoringQueue
from narrative_twins.app.requests import MAX_CHARACTERS
from narrative_twins.app.server import application
from narrative_twins.encoder.passes import ForwardPasses

from support.hostile_requests import (
    ENDPOINT,
    INVALID_CANCELLATIONS,
    INVALID_SCORES,
    OTHER_PAGES,
    all_values,
    event,
)
from support.processes import COMMAND, LIMIT, started, wait_until

pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")

ROOT = Path(__file__).parents[2]
TALE = "Nadia found a map. It led to a mill. The mill was gone. She laughed until it got dark."
LONG = " ".join(
    f"On day {day} Nadia walked on to the river and counted {day} boats." for day in range(40)
)


@pytest.fixture(scope="module")
def page(bert_folder):
    queue = ScoringQueue(bert_folder)
    yield Page(queue, pause=0.01, any_encoder=True)
    queue.close()


@pytest.fixture(scope="module")
def address(page):
    """The address at which the page is served."""
    import uvicorn

    config = uvicorn.Config(application(page), log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(LIMIT)


@pytest.fixture
def connect(address, tmp_path):
    """Makes clients, which are closed at the end of the test."""
    from gradio_client import Client

    clients = []

    def connected(**options):
        clients.append(Client(address, verbose=False, download_files=tmp_path, **options))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()


@pytest.fixture
def client(connect):
    return connect()


@pytest.fixture
def http(address):
    import httpx

    with httpx.Client(base_url=address, trust_env=False, timeout=LIMIT) as client:
        yield client


@pytest.fixture
def slow(page, monkeypatch):
    """Makes forward passes slow, and the page patient."""
    monkeypatch.setattr(page.queue, "patience", 1e9)
    states = ForwardPasses.states
    monkeypatch.setattr(
        ForwardPasses, "states", lambda self, rows: time.sleep(0.02) or states(self, rows)
    )


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({}, {}),
        ({"operations": ["deletion"]}, {"operations": ["deletion"]}),
        ({"windows": "2, 2"}, {"windows": [2, 2]}),
        (
            {"method": "one pass"},
            {"operations": ["deletion", "disruption", "summarization"], "approximate": "one-pass"},
        ),
    ],
    ids=str,
)
def test_the_result_is_that_of_the_library(client, bert_folder, options, same):
    found = client.predict(TALE, **options, api_name="/score")
    (result,) = score_stories([TALE], bert_folder, **same)
    expected = result.to_dict()
    assert {
        name: pytest.approx(scores, abs=1e-5) for name, scores in expected.pop("scores").items()
    } == found.pop("scores")
    assert found == expected


def test_lines_and_paragraphs(client):
    verse = "Nadia found\na map. It led\n\nto a mill.\n"
    for split, units in (
        ("lines", ["Nadia found", "a map. It led", "to a mill."]),
        ("paragraphs", ["Nadia found\na map. It led", "to a mill."]),
    ):
        assert client.predict(verse, split=split, api_name="/score")["sentences"] == units


def test_clients_see_this_endpoint_only(client):
    told = client.view_api(return_format="dict", print_info=False)
    assert list(told["named_endpoints"]) == ["/score"] and told["unnamed_endpoints"] == {}
    endpoint = told["named_endpoints"]["/score"]
    parameters = {parameter["parameter_name"]: parameter for parameter in endpoint["parameters"]}
    assert list(parameters) == ["text", "operations", "windows", "method", "split"]
    defaults = {name: parameter["parameter_default"] for name, parameter in parameters.items()}
    given = {
        "text": None,
        "operations": list(OPERATIONS),
        "windows": "auto",
        "method": "exact",
        "split": "sentences",
    }
    assert defaults == given
    descriptions = [parameter["python_type"]["description"] for parameter in parameters.values()]
    assert all(descriptions) and "deletion, shifting" in descriptions[1]
    assert (
        endpoint["description"] and "scores" in endpoint["returns"][0]["python_type"]["description"]
    )
    for parts in ([0], ["/score_1"], ["/handler"]):
        with pytest.raises(ValueError, match="[Ii]nvalid|Cannot find"):
            client.predict(
                "A story.", **{"fn_index" if isinstance(parts[0], int) else "api_name": parts[0]}
            )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"text": " "}, "There is no story yet: paste one"),
        (
            {"text": "a" * (MAX_CHARACTERS + 1)},
            "The text has 2,000,001 characters, more than the limit of 2,000,000",
        ),
        ({"text": TALE, "operations": []}, "Choose at least one operation."),
        (
            {"text": TALE, "operations": ["deletion", "nothing"]},
            "- operations: takes a list of some of deletion",
        ),
        (
            {"text": TALE, "operations": ["shifting"], "method": "one pass"},
            "Shifting has no one-pass form",
        ),
        ({"text": TALE, "windows": "7"}, "a count of windows goes from 1 to 4"),
        ({"text": TALE, "windows": 2}, "- windows: takes text: auto, a count such as 5"),
        ({"text": TALE, "method": "guess"}, "- method: takes exact or one pass"),
        (
            {"text": TALE, "split": "words"},
            "- split: takes what is scored: sentences, lines, paragraphs",
        ),
        (
            {"text": 5, "windows": None},
            "2 parameter(s) failed validation:\n- text: takes the story",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_errors_are_those_of_the_page(client, values, message, capfd):
    with pytest.raises(Exception) as raised:
        client.predict(**values, api_name="/score")
    assert message in str(raised.value)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_stories_that_take_too_long_are_refused_with_hints(client, page, monkeypatch):
    monkeypatch.setattr(page.queue, "patience", 0.001)
    with pytest.raises(
        Exception,
        match="take more than 1 second to score exactly on this machine; .*choose one pass",
    ):
        client.predict(LONG, windows="1", api_name="/score")


def test_steps_until_the_result(client, slow):
    *steps, result = client.submit(LONG, api_name="/score")
    assert steps and all(set(step) == {"phase", "share", "seconds_left"} for step in steps)
    assert any(step["phase"] == "Scoring" and step["seconds_left"] is not None for step in steps)
    assert len(result["sentences"]) == 40


def scoring(page):
    """The story that is scored now, when its scoring has begun."""
    wait_until(lambda: page.queue._current is not None and page.queue._current.began)
    return page.queue._current


def test_cancelling_stops_the_scoring(client, page, slow):
    submitted = client.submit(LONG, windows="1", api_name="/score")
    job = scoring(page)
    wait_until(lambda: submitted.outputs())
    submitted.cancel()
    assert job.ended.wait(LIMIT) and job.stopped and job.result is None
    assert len(client.predict(TALE, api_name="/score")["sentences"]) == 4


def test_a_client_that_goes_stops_the_scoring(address, page, slow):
    code = (
        "import sys; from gradio_client import Client\n"
        "client = Client(sys.argv[1], verbose=False)\n"
        "print(next(client.submit(sys.argv[2], windows='1', api_name='/score')), flush=True)\n"
        "sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started(sys.executable, "-c", code, address, LONG, **pipes) as process:
        assert "phase" in process.stdout.readline()
        job = scoring(page)
        process.kill()
        assert job.ended.wait(LIMIT) and job.stopped and job.result is None


def test_stories_wait_for_their_turns(client, page, monkeypatch):
    page.queue.load()
    states, opened = ForwardPasses.states, threading.Event()
    monkeypatch.setattr(
        ForwardPasses, "states", lambda self, rows: opened.wait(LIMIT) and states(self, rows)
    )
    first = client.submit(TALE, api_name="/score")
    scoring(page)
    waiting = [client.submit(TALE, api_name="/score") for _ in range(MAX_WAITING)]
    wait_until(lambda: sum(map(len, page.queue._waiting.values())) == MAX_WAITING)
    with pytest.raises(Exception, match=f"{MAX_WAITING} of your stories are waiting already"):
        client.predict(TALE, api_name="/score")
    opened.set()
    assert all(len(job.result(LIMIT)["sentences"]) == 4 for job in [first, *waiting])


def refused(answer):
    assert answer.status_code == 422, answer.text
    assert "Traceback" not in answer.text
    return answer.text


def test_the_number_of_the_endpoint(http):
    """That `support.hostile_requests` uses."""
    (found,) = [
        event
        for event in http.get("/config").json()["dependencies"]
        if event["api_visibility"] != "private"
    ]
    assert (found["id"], found["api_name"]) == (ENDPOINT, "score")


@pytest.mark.parametrize("values", INVALID_SCORES, ids=lambda values: json.dumps(values)[:60])
def test_values_of_other_kinds_are_refused(http, values):
    detail = json.loads(refused(http.post(EVENTS, json=event(ENDPOINT, values))))["detail"]
    names = [problem["parameter_name"] for problem in detail]
    assert names and set(names) <= {"data", "text", "operations", "windows", "method", "split"}
    assert all("takes" in problem["message"] for problem in detail)


def test_paths_are_text_or_refused(http, client, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("The secret of the server. It is told.")
    for values in all_values(str(secret)):
        refused(http.post(EVENTS, json=event(ENDPOINT, values)))
    assert client.predict(str(secret), api_name="/score")["sentences"] == [str(secret)]
    from gradio_client import handle_file

    with pytest.raises(Exception, match="404"):  # files can't be uploaded
        client.predict(handle_file(str(secret)), api_name="/score")


@pytest.mark.parametrize("body", INVALID_CANCELLATIONS, ids=json.dumps)
def test_invalid_cancellations_are_refused(http, body):
    assert refused(http.post(CANCEL, json=body)) == "The request is not valid.\n"


@pytest.mark.parametrize("headers", [*OTHER_PAGES, {"host": "evil.com"}], ids=str)
def test_other_pages_can_neither_score_nor_cancel(address, headers):
    import httpx

    for path, body in (
        (EVENTS, event(ENDPOINT)),
        (CANCEL, {"fn_index": ENDPOINT, "session_hash": "a", "event_id": "b"}),
    ):
        assert (
            httpx.post(address + path, json=body, headers=headers, trust_env=False).status_code
            == 403
        )
    assert httpx.post(address + path, json=body, trust_env=False).status_code == 200


def test_large_bodies_are_refused(http):
    for path in (EVENTS, CANCEL):
        assert http.post(path, content=b" " * (MAX_BODY + 1)).status_code == 413


@pytest.mark.parametrize("path", ["/config", "/gradio_api/info"])
def test_what_clients_are_told_does_not_depend_on_the_query(http, path):
    expected = http.get(path)
    assert expected.status_code == 200
    for query in (
        "deep_link=../../etc/passwd",
        "all_endpoints=True",
        "page=nothing",
        "serialize=False",
    ):
        assert http.get(f"{path}?{query}").content == expected.content
    forwarded = {"x-forwarded-host": "evil.com"}
    http.get("/gradio_api/info", headers=forwarded)
    assert "evil.com" not in http.get("/gradio_api/info").text


def test_the_example_of_the_guide():
    """With the page that the command serves."""
    text = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
    ((code, shown),) = re.findall(
        r"^```python\n(from gradio_client .*?)^```\n+```text\n(.*?)^```", text, re.S | re.M
    )
    with started(
        COMMAND, "app", "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        address = process.stdout.readline().split()[4]
        printed, names = io.StringIO(), {}
        assert "http://127.0.0.1:7860" in code
        with contextlib.redirect_stdout(printed):
            exec(
                compile(code.replace("http://127.0.0.1:7860", address), "docs/scoring.md", "exec"),
                names,
            )
        assert printed.getvalue() == shown
        names["client"].close()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, errors) == (130, "", "narrative-twins: interrupted\n")

"""The server of the page: which requests it accepts, its endpoint `/score` by `gradio_client`, its
downloads, and the command that serves it. No request reads a file, names another host or comes from
another page."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, score_stories
from narrative_twins.app.page import Page
from narrative_twins.app.queue import MAX_SENTENCES, MAX_WAITING, ScoringQueue
from narrative_twins.app.server import application
from narrative_twins.commands.cli import main
from narrative_twins.encoder.passes import ForwardPasses
from narrative_twins.show.formats import write_results

from support.hostile_requests import (
    ENDPOINT,
    INVALID_BODIES,
    INVALID_CALLS,
    INVALID_CANCELLATIONS,
    INVALID_EVENT_BODIES,
    INVALID_EVENTS,
    INVALID_SCORES,
    KNOWN_HOSTS,
    OTHER_HOSTS,
    OTHER_PAGES,
    STORY,
    UNKNOWN_CALLS,
    all_values,
    event,
    file_requests,
)
from support.json_values import VALUES
from support.processes import COMMAND, LIMIT, started, wait_until
from support.raw_server import served
from support.scoring import FixedScores, assert_same_result

pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")

from narrative_twins.app import connections, guard  # noqa: E402
from narrative_twins.app.guard import CALL, CANCEL, EVENTS, MAX_BODY, POLICY, Guard  # noqa: E402

ROOT = Path(__file__).parents[2]
SECRET = "the secret of the server"
TALE = "Nadia found a map. It led to a mill. The mill was gone. She laughed until it got dark."
LONG = " ".join(
    f"On day {day} Nadia walked on to the river and counted {day} boats." for day in range(40)
)


@pytest.fixture(scope="module")
def queue(bert_folder):
    queue = ScoringQueue(bert_folder)
    assert queue.own
    yield queue
    queue.close()


@pytest.fixture(scope="module")
def page(queue):
    return Page(queue, pause=0.01, any_encoder=False)


@pytest.fixture(scope="module")
def app(page):
    return application(page, ["0.0.0.0", "stories.example"])


@pytest.fixture(scope="module")
def address(app):
    """The address at which the page is served."""
    with served(app) as port:
        yield f"http://localhost:{port}"


@pytest.fixture(scope="module")
def http(address):
    import httpx

    with httpx.Client(base_url=address, trust_env=False, timeout=LIMIT) as client:
        yield client


@pytest.fixture(scope="module")
def client(address, tmp_path_factory):
    from gradio_client import Client

    client = Client(address, verbose=False, download_files=tmp_path_factory.mktemp("files"))
    yield client
    client.close()


def test_an_event_is_scored(http):
    assert http.post(EVENTS, json=event(trigger_id=3)).status_code == 200
    with http.stream("GET", "/gradio_api/queue/data?session_hash=abc") as stream:
        lines = [line[6:] for line in stream.iter_lines() if line.startswith("data: ")]
    assert any("1 sentence, 1 window." in line for line in lines)


@pytest.fixture(scope="module")
def guarded(app):
    """A client of the guard in front of an application that answers everything, and the requests
    that reach it."""
    from starlette.testclient import TestClient

    passed = []

    async def application(scope, receive, send):
        body = (await receive())["body"] if scope["method"] == "POST" else b"{}"
        passed.append((scope, json.loads(body)))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    (own,) = [part for part in app.user_middleware if part.cls is Guard]
    return TestClient(Guard(application, **own.kwargs), base_url="http://localhost:7860"), passed


def test_no_endpoint_reads_a_file(http, guarded, tmp_path):
    """At all paths at which gradio takes events."""
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    client, passed = guarded
    before = len(passed)
    requests = list(file_requests(str(secret), numbers=[ENDPOINT]))
    for method, path, options in requests[::2]:
        assert client.request(method, path, **options).status_code in (403, 404, 405, 422)
    assert len(passed) == before
    for method, path, options in requests[::29]:
        assert SECRET not in http.request(method, path, **options).text
    for values in all_values(str(secret)):
        assert http.post(EVENTS, json=event(ENDPOINT, values)).status_code == 422


def test_only_known_hosts_are_served(guarded):
    client, _ = guarded
    for hosts, status in ((KNOWN_HOSTS, 200), (filter(None, OTHER_HOSTS), 403)):
        for host in hosts:
            for answer in (
                client.get("/", headers={"host": host}),
                client.post(EVENTS, json=event(), headers={"host": host}),
            ):
                assert answer.status_code == status, host
                assert status == 200 or "<" not in answer.text and "--allow-host" in answer.text


def test_a_server_at_all_addresses_is_reached_at_each():
    async def served(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def answered(hosts, host):
        """The status of an answer to a request that arrives at an address."""
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b""}
        scope |= {"server": ("192.168.1.7", 7860), "headers": [(b"host", host)]}
        await Guard(served, hosts, {}, 0)(scope, None, send)
        return sent[0]["status"]

    for hosts, status in ((["0.0.0.0"], 200), (["::"], 200), (["127.0.0.1"], 403)):
        assert asyncio.run(answered(hosts, b"192.168.1.7:7860")) == status
        for host in (b"192.168.1.8:7860", b"evil.com", b""):
            assert asyncio.run(answered(hosts, host)) == 403


def test_other_pages_can_neither_score_nor_cancel(guarded, http, address):
    client, _ = guarded
    cancellation = {"fn_index": ENDPOINT, "session_hash": "a", "event_id": "b"}
    for path, body in ((EVENTS, event()), (EVENTS, event(ENDPOINT)), (CANCEL, cancellation)):
        for headers in [*OTHER_PAGES, {"host": "evil.com"}]:
            assert client.post(path, json=body, headers=headers).status_code == 403
            # This kind needs no preflight request.
            kind = {"content-type": "text/plain"}
            answer = client.post(path, content=json.dumps(body), headers=headers | kind)
            assert answer.status_code == 403
        own = {"origin": address, "sec-fetch-site": "same-origin"}
        assert http.post(path, json=body, headers=own).status_code == 200
    answer = http.get("/", headers={"origin": "http://localhost:3000"})
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_invalid_requests_are_refused(guarded):
    client, passed = guarded
    before = len(passed)
    for path, bodies in ((EVENTS, INVALID_EVENTS), (CANCEL, INVALID_CANCELLATIONS)):
        for body in bodies:
            answer = client.post(path, json=body)
            assert (answer.status_code, answer.text) == (422, "The request is not valid.\n"), body
        for body in INVALID_EVENT_BODIES:
            assert client.post(path, content=body).status_code == 422
        assert client.post(path, content=b" " * (MAX_BODY + 1)).status_code == 413
    for values in INVALID_SCORES:
        answer = client.post(EVENTS, json=event(ENDPOINT, values))
        assert answer.status_code == 422, values
        # Programs get the names of what is wrong.
        problems = answer.json()["detail"]
        names = {problem["parameter_name"] for problem in problems}
        assert names and names <= {"data", "text", "operations", "windows", "method", "split"}
        assert all(problem["message"].startswith("takes ") for problem in problems)
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        for path in ("/", EVENTS, "/download/a.json"):
            assert client.request(method, path).status_code in (404, 405)
    assert len(passed) == before


EVENT = {"fn_index": VALUES | st.integers(-1, 9), "data": VALUES, "session_hash": VALUES}


@given(body=VALUES | st.fixed_dictionaries(EVENT))
@settings(max_examples=50)
def test_any_json_is_answered(guarded, body):
    for path in (EVENTS, CANCEL):
        assert guarded[0].post(path, content=json.dumps(body)).status_code in (200, 422)


def test_what_gradio_does_not_need_is_not_passed_on(guarded):
    """Unknown fields of an event, queries, compression, and websockets."""
    from starlette.websockets import WebSocketDisconnect

    client, passed = guarded
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/queue/join"):
        pass
    more = {"event_data": {"path": "/etc"}, "batched": True, "request": {}, "event_id": "1"}
    headers = {"content-encoding": "gzip", "content-type": "text/plain"}
    client.post(f"{EVENTS}?a=1", json=event(0, **more), headers=headers)
    scope, body = passed[-1]
    assert body == event(0) | {"trigger_id": None}
    headers = dict(scope["headers"])
    assert headers[b"content-type"] == b"application/json" and b"content-encoding" not in headers
    assert scope["query_string"] == b""


def test_what_clients_get_does_not_depend_on_the_query(http):
    for path in ("/config", "/gradio_api/info"):
        expected = http.get(path)
        assert expected.status_code == 200
        query = "deep_link=../../etc/passwd&all_endpoints=True&page=no&serialize=False"
        assert http.get(f"{path}?{query}").content == expected.content
    http.get("/gradio_api/info", headers={"x-forwarded-host": "evil.com"})
    assert "evil.com" not in http.get("/gradio_api/info").text
    endpoint = http.get("/gradio_api/info").json()["named_endpoints"]["/score"]
    labels = [found["label"] for found in endpoint["parameters"] + endpoint["returns"]]
    assert labels == ["text", "operations", "windows", "method", "split", "salience"]
    assert "the story as plain text" in str(endpoint["parameters"][0])


def test_the_page_has_one_endpoint_no_external_links_and_a_policy(http, page):
    for path in ("/", "/theme.css", "/download/nothing.json", "/nowhere"):
        assert http.get(path).headers["content-security-policy"] == POLICY
    assert "http" not in POLICY and "*" not in POLICY
    config = http.get("/config").json()
    assert not config["analytics_enabled"] and config["footer_links"] == []
    (found,) = [part for part in config["dependencies"] if part["api_visibility"] != "private"]
    assert (found["id"], found["api_name"]) == (ENDPOINT, "score"), "as in hostile_requests"
    urls = re.findall(r"url\((.{6})", http.get("/theme.css").text)
    assert all(url.startswith(("data:", '"data:')) for url in urls)
    for page.any_encoder in (True, False):
        from narrative_twins.app.layout import build_layout

        parts = build_layout(page).blocks.config["components"]
        assert ("Encoder" in [part["props"].get("label") for part in parts]) is page.any_encoder


def test_building_the_page_uses_no_network(page, monkeypatch):
    requested = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: requested.append(host) or [])
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: requested.append(address))
    application(page)
    time.sleep(0.2)
    assert requested == []


def test_downloads_are_the_output_of_the_formats(page, http, bert_folder):
    (result,) = score_stories([TALE], bert_folder)
    token = page.keep(result)
    for form in ("json", "csv", "html", "svg"):
        answer = http.get(f"/download/{token}.{form}")
        assert answer.headers["content-disposition"] == f"attachment; filename=salience.{form}"
        pieces = write_results([result], form)
        data = b"".join(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
        assert answer.content == data
    for name in ("nothing.json", f"{token}.exe", f"{token}.text", token):
        assert http.get(f"/download/{name}").status_code == 404


def test_the_result_is_that_of_the_library(client, bert_folder):
    options = {"operations": ["deletion"], "windows": "2, 2", "method": "one pass"}
    found = client.predict(TALE, **options, api_name="/score")
    same = {"operations": ["deletion"], "windows": [2, 2], "approximate": "one-pass"}
    (result,) = score_stories([TALE], bert_folder, **same)
    assert_same_result(found, result.json())


@pytest.mark.parametrize("approximate", ["one-pass", None])
def test_one_pass_is_the_default_unless_the_page_is_started_with_exact(
    queue, approximate, monkeypatch
):
    from fastapi.testclient import TestClient

    # A user's operation without a one-pass form is chosen with exact scores only.
    chosen = [*OPERATIONS, *(["fixed"] if approximate is None else [])]
    monkeypatch.setitem(OPERATIONS, "fixed", FixedScores([0.0]))
    page = Page(queue, approximate=approximate)
    with TestClient(application(page), base_url="http://localhost") as http:
        config, info = http.get("/config").json(), http.get("/gradio_api/info").json()
    props = {part["props"].get("label"): part["props"] for part in config["components"]}
    method = "one pass" if approximate == "one-pass" else "exact"
    assert props["Scores"]["value"] == method
    assert props["Operations"]["value"] == chosen
    parameters = info["named_endpoints"]["/score"]["parameters"]
    defaults = {found["parameter_name"]: found["parameter_default"] for found in parameters}
    assert (defaults["method"], defaults["operations"]) == (method, None)


@pytest.mark.parametrize(
    ("options", "approximate", "limit"),
    [([], "one-pass", MAX_SENTENCES), (["--exact", "--max-sentences", "30"], None, 30)],
)
def test_options_of_the_command(options, approximate, limit, monkeypatch):
    served = []
    monkeypatch.setattr("narrative_twins.app.server.serve", lambda **given: served.append(given))
    assert main(["app", *options]) == 0
    assert (served[0]["approximate"], served[0]["max_sentences"]) == (approximate, limit)


def test_scores_by_default_and_exactly(client):
    for options, approximate in (({}, "one-pass"), ({"method": "exact"}, None)):
        found = client.predict(TALE, **options, api_name="/score")
        assert list(found["scores"]) == list(OPERATIONS) and found["approximate"] == approximate


def test_errors_are_those_of_the_page(client, tmp_path, capfd):
    from gradio_client import handle_file

    secret = tmp_path / "secret.txt"
    secret.write_text("The secret of the server. It is known.")
    for values, message in (
        ({"text": " "}, "There is no story yet"),
        ({"text": TALE, "windows": "7"}, "does not partition the 4 sentence(s)"),
        ({"text": TALE, "split": "words"}, "- split: takes what is scored: sentences, lines"),
        ({"text": 5, "windows": 2}, "2 parameter(s) failed validation:\n- text: takes the story"),
        ({"text": handle_file(str(secret))}, "404"),  # files can't be uploaded
    ):
        with pytest.raises(Exception) as raised:
            client.predict(**values, api_name="/score")
        assert message in str(raised.value)
    assert client.predict(str(secret), api_name="/score")["sentences"] == [str(secret)]
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.fixture
def gate(page, monkeypatch):
    """Forward passes wait until this event is set."""
    states, opened = ForwardPasses.states, threading.Event()
    monkeypatch.setattr(
        ForwardPasses, "states", lambda self, rows: opened.wait(LIMIT) and states(self, rows)
    )
    yield opened
    opened.set()
    wait_until(lambda: not page.queue.jobs())


def first_job(page):
    """The story that is scored, when its scoring has begun."""
    wait_until(lambda: any(job.phase == "Scoring" for job in page.queue.jobs()))
    return page.queue.jobs()[0]


def test_stories_wait_for_their_turns(client, page, gate):
    client.submit(TALE, api_name="/score")
    first_job(page)
    waiting = [client.submit(TALE, api_name="/score") for _ in range(MAX_WAITING)]
    wait_until(lambda: len(page.queue.jobs()) == MAX_WAITING + 1)
    with pytest.raises(Exception, match=f"{MAX_WAITING} of your stories are waiting already"):
        client.predict(TALE, api_name="/score")
    gate.set()
    *steps, result = waiting[0]
    assert len(result["sentences"]) == 4
    assert all(set(step) == {"phase", "share", "seconds_left"} for step in steps)
    assert steps[0]["phase"].startswith("Waiting for its turn, after ")


def test_cancelling_stops_the_scoring(client, page, gate):
    submitted = client.submit(LONG, windows="1", method="exact", api_name="/score")
    job = first_job(page)
    wait_until(lambda: submitted.outputs())
    submitted.cancel()
    wait_until(lambda: job.stopped)
    gate.set()
    wait_until(job.scored.done)
    assert len(client.predict(TALE, api_name="/score")["sentences"]) == 4


def test_a_client_that_goes_stops_the_scoring(address, http, page, gate):
    http.post(EVENTS, json=event(ENDPOINT, [LONG, ["deletion"], "1", "exact", "sentences"], "goes"))
    with http.stream("GET", "/gradio_api/queue/data?session_hash=goes") as stream:
        next(stream.iter_lines())
        job = first_job(page)
    wait_until(lambda: job.stopped)


def called(http, *values):
    """The event id of a call by plain HTTP."""
    answer = http.post(CALL, json={"data": [*values, *(None, "auto", "one pass", "sentences")]})
    assert answer.status_code == 200, answer.text
    return answer.json()["event_id"]


def messages(stream):
    """The names and data of server-sent events."""
    return re.findall(r"^event: (\w+)\ndata: (.*)\n\n", stream, re.MULTILINE)


def test_plain_http_as_in_the_guide(http, bert_folder):
    """The two commands of curl in the guide, by another client."""
    text = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
    body = re.search(
        r"^\$ curl -X POST http://127.0.0.1:7860(\S+) .*?-d '(.*?)'$", text, re.M | re.S
    )
    read = re.search(r"^\$ curl -N http://127.0.0.1:7860(\S+)/EVENT_ID$", text, re.M)
    form = {"content-type": "application/x-www-form-urlencoded"}  # that of curl -d
    answer = http.post(body[1], content=body[2], headers=form)
    assert answer.status_code == 200 and list(answer.json()) == ["event_id"]
    stream = http.get(f"{read[1]}/{answer.json()['event_id']}")
    assert stream.headers["content-type"].startswith("text/event-stream")
    *steps, (name, data) = messages(stream.text)
    assert name == "complete" and all(step == "generating" for step, _ in steps)
    (found,), story = json.loads(data), json.loads(body[2])["data"][0]
    (expected,) = score_stories([story], bert_folder, approximate="one-pass")
    assert_same_result(found, expected.json())
    again = http.get(f"{read[1]}/{answer.json()['event_id']}")
    assert (again.status_code, again.text) == (
        404,
        "There is no such event, or it was read already.\n",
    )


def test_errors_by_plain_http(http, monkeypatch, queue):
    stream = http.get(f"{CALL}/{called(http, ' ')}").text
    ((name, data),) = messages(stream)
    assert name == "error" and "There is no story yet" in json.loads(data)["error"]
    monkeypatch.setattr(queue, "max_sentences", 3)
    assert "more than the limit of 3" in http.get(f"{CALL}/{called(http, TALE)}").text
    problems = http.post(CALL, json={"data": [5, None, "auto", "fast", "sentences"]}).json()
    names = [problem["parameter_name"] for problem in problems["detail"]]
    assert names == ["text", "method"]


def test_closing_the_stream_of_a_call_stops_the_scoring(http, page, gate):
    event_id = called(http, LONG)
    with http.stream("GET", f"{CALL}/{event_id}") as stream:
        next(stream.iter_lines())
        job = first_job(page)
    wait_until(lambda: job.stopped)


def test_hostile_calls_are_refused(guarded, http):
    client, passed = guarded
    before = len(passed)
    for body in INVALID_CALLS:
        assert client.post(CALL, json=body).status_code == 422, body
    for body in INVALID_BODIES:
        assert client.post(CALL, content=body).status_code == 422
    assert client.post(CALL, content=b" " * (MAX_BODY + 1)).status_code == 413
    for headers in [*OTHER_PAGES, {"host": "evil.com"}]:
        assert client.post(CALL, json={"data": STORY}, headers=headers).status_code == 403
    for name in UNKNOWN_CALLS:
        assert client.get(f"{CALL}/{name}").status_code == 404, name
        assert client.post(f"{CALL}/{name}", json={"data": STORY}).status_code == 404
        assert http.get(f"{CALL}/{name}").status_code == 404
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert client.request(method, CALL).status_code in (404, 405)
    assert len(passed) == before
    client.post(f"{CALL}?a=1", json={"data": STORY, "session_hash": "abc", "fn_index": 0})
    scope, body = passed[-1]
    assert body == {"data": list(STORY)} and scope["query_string"] == b""


def test_a_limited_number_of_calls_can_be_read(monkeypatch):
    monkeypatch.setattr(guard, "MAX_CALLS", 2)
    own = Guard(None, [], {}, 0)
    for answer in (
        b'{"event_id": "a"}',
        b"{",
        b"[]",
        b"",
        b'{"event_id": "b"}',
        b'{"event_id": "c"}',
    ):
        own._remember(answer)
    assert list(own.calls) == ["b", "c"]


@pytest.mark.slow
def test_the_command_serves_the_example_of_the_guide_until_ctrl_c():
    text = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
    ((code, shown),) = re.findall(
        r"^```python\n(from gradio_client .*?)^```\n+```text\n(.*?)^```", text, re.S | re.M
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(COMMAND, "app", "--port", "0", **pipes) as process:
        address = process.stdout.readline().split()[4]
        printed, names = io.StringIO(), {}
        code = code.replace("http://127.0.0.1:7860", address)
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/scoring.md", "exec"), names)
        assert printed.getvalue() == shown
        names["client"].close()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, errors) == (130, "", "narrative-twins: interrupted\n")


def test_addresses_that_can_not_be_used(bert_folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["app", "--model", bert_folder, "--port", str(port)]) == 1
    assert f"can't use port {port} of 127.0.0.1" in capsys.readouterr().err
    assert main(["app", "--model", bert_folder, "--host", "192.0.2.1", "--port", "0"]) == 1
    assert "choose another --port or --host" in capsys.readouterr().err
    assert main(["app", "--port", "0", "--model", "no/such"]) == 1
    assert (
        "encoder 'no/such' (no folder, so taken as a Hub id) can't be loaded"
        in capsys.readouterr().err
    )
    for port in ("70000", "-1", "http"):
        with pytest.raises(SystemExit, match="2"):
            main(["app", "--port", port])
        assert "port" in capsys.readouterr().err


async def hello(scope, receive, send):
    """Answers requests that have arrived, at the path /later after half a second."""
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(0.5 * (scope["path"] == "/later"))
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"hello"})


def answered(port: int, *requests: bytes) -> int:
    """How many requests of a connection are answered until the server closes it."""
    parts = []
    with socket.create_connection(("127.0.0.1", port), LIMIT) as connection:
        connection.sendall(b"".join(requests))
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(1000):
                parts.append(part)
    return b"".join(parts).count(b"hello")


GET = b"GET /later HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = GET.replace(b"Host", b"Connection: close\r\nHost")
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNK = POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"


def test_connections_whose_requests_do_not_arrive_are_closed(monkeypatch):
    monkeypatch.setattr(connections, "SECONDS", 0.2)
    with served(hello) as port:
        for begin in (b"", b"GET / HT", POST, POST + b"Content-Length: 9\r\n\r\n{", CHUNK):
            assert answered(port, begin) == 0
        assert answered(port, LAST) == 1, "the answer may take longer"
        assert answered(port, GET, LAST) == 2
        assert answered(port, GET, CHUNK) == 1


def test_number_of_connections(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)
    with served(hello) as port:
        with socket.create_connection(("127.0.0.1", port)) as first:
            first.sendall(b"GET")
            assert answered(port, LAST) == 0
            first.sendall(LAST[3:])
            assert b"200" in first.recv(1000)
        wait_until(lambda: answered(port, LAST) == 1)


def test_what_gradio_fails_on_does_not_reach_it(http):
    assert http.get("/", headers={"origin": "http://[::1"}).status_code == 200
    assert http.get("/static/" + "a" * 9_000).status_code == 404

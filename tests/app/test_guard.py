"""Attacks on the web page over HTTP: no request reads a file, names another host or comes from
another page."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.app.guard import EVENTS, MAX_BODY, Guard
from narrative_twins.app.page import Page
from narrative_twins.app.queue import ScoringQueue
from narrative_twins.app.server import application

from support.hostile_requests import (
    INVALID_EVENTS,
    KNOWN_HOSTS,
    OTHER_HOSTS,
    OTHER_PAGES,
    event,
    file_requests,
)

SECRET = "the secret of the server"


@pytest.fixture(scope="module")
def app(bert_folder):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    return application(Page(ScoringQueue(bert_folder), pause=0.01), ["0.0.0.0", "stories.example"])


@pytest.fixture(scope="module")
def client(app):
    from starlette.testclient import TestClient

    with TestClient(app, base_url="http://localhost:7860", raise_server_exceptions=False) as client:
        yield client


def test_an_event_is_scored(client):
    assert client.post(EVENTS, json=event(trigger_id=3)).status_code == 200
    with client.stream("GET", "/gradio_api/queue/data?session_hash=abc") as stream:
        messages = [
            json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")
        ]
    assert any("1 sentence, 1 window." in json.dumps(message) for message in messages)


def test_no_endpoint_reads_a_file(client, tmp_path):
    """Of all events, by number and by name, at all paths at which gradio takes events."""
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    for method, path, options in file_requests(str(secret)):
        answer = client.request(method, path, **options)
        assert answer.status_code in (403, 404, 405, 422), (method, path)
        assert SECRET not in answer.text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
@pytest.mark.parametrize("path", ["/", EVENTS, "/download/a.json"])
def test_other_methods_are_refused(client, method, path):
    assert client.request(method, path).status_code in (404, 405)


@pytest.mark.parametrize(
    ("host", "served"),
    [(host, True) for host in KNOWN_HOSTS] + [(host, False) for host in OTHER_HOSTS],
)
def test_only_known_hosts_are_served(client, host, served):
    for answer in (
        client.get("/", headers={"host": host}),
        client.post(EVENTS, json=event(), headers={"host": host}),
    ):
        assert answer.status_code == (200 if served else 403)
        assert served or "<" not in answer.text and "--allow-host" in answer.text


async def answered(guard, server, host):
    """The status of an answer to a request that arrives at an address."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "server": server,
        "headers": [(b"host", host)],
    }
    await guard(scope, None, send)
    return sent[0]["status"]


async def served(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})


@pytest.mark.parametrize(
    ("hosts", "status"), [(["0.0.0.0"], 200), (["::"], 200), (["127.0.0.1"], 403), ([], 403)]
)
def test_a_server_at_all_addresses_is_reached_at_each(hosts, status):
    import asyncio

    guard, address = Guard(served, hosts, {}), ("192.168.1.7", 7860)
    assert asyncio.run(answered(guard, address, b"192.168.1.7:7860")) == status
    assert asyncio.run(answered(guard, address, b"192.168.1.8:7860")) == 403
    assert asyncio.run(answered(guard, address, b"evil.com")) == 403


@pytest.mark.parametrize("headers", OTHER_PAGES)
def test_posts_of_other_pages_are_refused(client, headers):
    assert client.post(EVENTS, json=event(), headers=headers).status_code == 403
    text = {"content-type": "text/plain"}  # needs no preflight request
    assert (
        client.post(EVENTS, content=json.dumps(event()), headers=headers | text).status_code == 403
    )
    own = {"origin": "http://localhost:7860", "sec-fetch-site": "same-origin"}
    assert client.post(EVENTS, json=event(), headers=own).status_code == 200


def test_answers_may_not_be_read_by_other_pages(client):
    answer = client.get("/", headers={"origin": "http://localhost:3000"})
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("body", INVALID_EVENTS, ids=lambda body: json.dumps(body)[:60])
def test_invalid_events_are_refused_without_a_traceback(client, body, caplog, capfd):
    answer = client.post(EVENTS, json=body)
    assert (answer.status_code, answer.text) == (422, "The request is not valid.\n")
    printed = "".join(capfd.readouterr()) + caplog.text
    assert "Traceback" not in printed


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    body=VALUES
    | st.fixed_dictionaries(
        {"fn_index": VALUES | st.integers(-1, 9), "data": VALUES, "session_hash": VALUES}
    )
)
def test_any_json_is_answered(client, body):
    answer = client.post(EVENTS, content=json.dumps(body))
    assert answer.status_code in (200, 422)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 10_000, b'{"fn_index": NaN}']
)
def test_bodies_that_are_not_events(client, body):
    assert client.post(EVENTS, content=body).status_code == 422


def test_large_bodies_are_refused(client):
    assert client.post(EVENTS, content=b" " * (MAX_BODY + 1)).status_code == 413


def test_what_gradio_does_not_need_is_not_passed_on(client, monkeypatch):
    """Unknown fields of an event, and compression."""
    passed = []

    async def application(scope, receive, send):
        passed.append((dict(scope["headers"]), json.loads((await receive())["body"])))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    from starlette.testclient import TestClient

    guard = Guard(application, [], {0: [lambda value: isinstance(value, str)]})
    more = {"event_data": {"path": "/etc"}, "batched": True, "request": {}, "event_id": "1"}
    headers = {"content-encoding": "gzip", "content-type": "text/plain"}
    TestClient(guard, base_url="http://localhost").post(
        EVENTS, json=event(0, ["a"], **more), headers=headers
    )
    ((headers, body),) = passed
    assert body == {
        "data": ["a"],
        "fn_index": 0,
        "session_hash": "abc",
        "trigger_id": None,
        "event_data": None,
    }
    assert headers[b"content-type"] == b"application/json" and b"content-encoding" not in headers


def test_websockets_are_refused(client):
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/queue/join"):
        pass

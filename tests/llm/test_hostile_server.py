"""Servers that drip, flood, redirect, nest or lie."""

from __future__ import annotations

import gzip
import json

import pytest

from narrative_twins.llm import bounded
from narrative_twins.llm.chat import NoAnswer, ServerError
from narrative_twins.llm.server import Server

from .test_chat import ask
from support.chat_server import Model, completion, serving
from support.raw_server import http, raw_server


def asked(address, folder, **settings):
    model = Model()
    model.address = address
    (found,) = ask(model, folder / "a", "How?", **{"retries": 0, "concurrency": 4, **settings})
    return found


@pytest.mark.parametrize("part", ["head", "body"])
def test_deadline_of_a_dripping_answer(part, tmp_path):
    """A byte now and then keeps each read in time."""

    def drip(connection, closing):
        text = http(b" " * 10_000, "Content-Type: application/json")
        sent = 0 if part == "head" else text.index(b"\r\n\r\n") + 4
        connection.sendall(text[:sent])
        while not closing.wait(0.02):
            connection.sendall(text[sent : sent + 1])
            sent += 1

    with raw_server(drip) as address:
        found = asked(address, tmp_path, timeout=0.5)
    assert isinstance(found, NoAnswer) and "did not answer within 0.5 seconds" in str(found)


def test_endless_answer_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded.bounded_client, "__defaults__", (100_000,))

    def flood(connection, closing):
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
        )
        while not closing.is_set():
            connection.sendall(b" " * 10_000)

    with raw_server(flood) as address:
        found = asked(address, tmp_path)
    assert isinstance(found, NoAnswer) and "it is larger than 100,000 bytes" in str(found)


def test_compressed_answer_is_measured_decompressed(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded.bounded_client, "__defaults__", (100_000,))
    bomb = gzip.compress(b" " * 50_000_000)
    headers = "Content-Type: application/json", "Content-Encoding: gzip"
    with raw_server(
        lambda connection, closing: connection.sendall(http(bomb, *headers))
    ) as address:
        found = asked(address, tmp_path)
    assert isinstance(found, NoAnswer) and "it is larger than" in str(found)
    small = gzip.compress(json.dumps(completion("right")).encode())
    with raw_server(
        lambda connection, closing: connection.sendall(http(small, *headers))
    ) as address:
        assert asked(address, tmp_path).text == "right"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(status, tmp_path):
    with serving(Model()) as other:
        with serving(Model(lambda body, before: (status, {"Location": other.address}))) as model:
            (found,) = ask(model, tmp_path / "a", "How?")
        assert isinstance(
            found, ServerError
        ) and f"redirects to {other.address}, which is not followed" in str(found)
        assert not other.bodies and not other.keys


@pytest.mark.parametrize(
    "nested", [b"[" * 100_000, b'{"a":' * 100_000, b'{"choices": ' + b"[" * 5_000]
)
def test_nested_answers_are_malformed(nested, tmp_path):
    answer = http(nested, "Content-Type: application/json")
    with raw_server(lambda connection, closing: connection.sendall(answer)) as address:
        found = asked(address, tmp_path)
    assert isinstance(found, NoAnswer) and "is not a chat completion" in str(found)


@pytest.mark.parametrize(
    "choices", [5, {}, [], [5], [{"message": 5}], [{"message": {"content": {"a": 1}}}], None]
)
def test_answers_of_other_types_are_malformed(choices, tmp_path):
    with serving(Model(lambda body, before: completion("right") | {"choices": choices})) as model:
        (found,) = ask(model, tmp_path / "a", "How?")
    assert isinstance(found, NoAnswer) and "is not a chat completion" in str(found)


@pytest.mark.parametrize("count", [-5, 10**30, True, "many", 1e308, None, [1]])
def test_absurd_usage_is_estimated(count, tmp_path):
    usage = {"prompt_tokens": count, "completion_tokens": count}
    with serving(Model(lambda body, before: completion("right") | {"usage": usage})) as model:
        (answer,) = ask(model, tmp_path / "a", "How?")
    assert 0 < answer.prompt_tokens < 100 and 0 < answer.completion_tokens < 100


@pytest.mark.parametrize(
    "url", ["http://localhost:99999/v1", "http://localhost:x/v1", "http://[::1/v1"]
)
def test_invalid_addresses(url):
    with pytest.raises(
        ValueError, match=r"the address of the server is invalid \(.*\); use one like"
    ):
        Server(url, "tiny")

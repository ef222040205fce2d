"""Requests to a language model over HTTP: their content, retries, hostile servers, errors that end
a run, saved answers, the API key."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import time

import pytest

from narrative_twins import extras
from narrative_twins.llm import chat as chat_module
from narrative_twins.llm.chat import Answer, Answers, Chat, Question, Rejected, Server, ServerError
from narrative_twins.llm.prompts import read_object, schema_of
from narrative_twins.llm.running import Prices, run_jobs

from support.chat_server import Model, completion, prompt_of, serving
from support.raw_server import http, raw_server

KEY = "sk-very-secret-0123456789"
SCHEMA = schema_of({"sentence": {"type": "integer"}})
JSON = "Content-Type: application/json"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def question(prompt: str, read=str) -> Question:
    return Question("s", "t", prompt, SCHEMA, read)


def ask(address: str, path, *prompts: str, attempts=1, read=str, **options) -> list:
    """The results of prompts, or the errors that were raised."""
    server = Server(address, "tiny", **options)

    async def ask_all():
        with Answers(path) as answers:
            async with Chat(server, answers, attempts) as chat:
                questions = [question(prompt, read) for prompt in prompts]
                return await asyncio.gather(*map(chat.ask, questions), return_exceptions=True)

    return asyncio.run(ask_all())


def saved(path) -> list[Answer]:
    return [Answer(**json.loads(line)) for line in path.read_text().splitlines()]


def first(*answers):
    """A model that gives these responses first, and then the answer `right`."""
    return lambda body, before: answers[before] if before < len(answers) else completion("right")


def test_request(tmp_path):
    fields = {
        "seed": None,
        "max_tokens": None,
        "max_completion_tokens": 50,
        "chat_template_kwargs": {"thinking": False},
    }
    with serving(Model(first())) as model:
        found = ask(model.address, tmp_path / "a", "How?", temperature=0.5, max_tokens=99)
        ask(model.address, tmp_path / "a", "How?", structured=False, fields=fields)
    assert model.keys == [f"Bearer {KEY}"] * 2
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "How?"}]}
    schema = {"name": "answer", "schema": SCHEMA, "strict": True}
    limits = {"temperature": 0.5, "max_tokens": 99, "seed": model.bodies[0]["seed"]}
    assert model.bodies == [
        asked | limits | {"response_format": {"type": "json_schema", "json_schema": schema}},
        asked
        | {"temperature": 1.0, "max_completion_tokens": 50}
        | {"chat_template_kwargs": {"thinking": False}},
    ]
    answer = saved(tmp_path / "a")[0]
    assert found == ["right"]
    assert answer == Answer(answer.key, "s", "t", 0, "tiny", "right", "stop", 99, 100, 10)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"concurrency": 0}, "concurrency=0"),
        ({"timeout": 0.0}, "timeout=0.0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": float("inf")}, "temperature=inf a finite"),
        ({"fields": {"stream": None}}, "'stream'.* set by the package"),
        *(
            ({"url": url}, "the address of the server must be")
            for url in (
                "localhost:8000",
                "http://me:sk-1@x/v1",
                "http://sk-1@x/v1",
                "http://x/v1?key=sk-1",
                "http://",
                "http://localhost:99999/v1",
                "http://[::1/v1",
                "http://x/v1\x1b[31m",
                "http://x/v1\u2028",
            )
        ),
    ],
)
def test_invalid_settings_are_rejected_without_showing_keys(wrong, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        Server(**{"url": "http://x/v1", "model": "tiny", **wrong})
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://eu.api.openai.com/v1", True),
        ("http://localhost:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("https://notopenai.com/v1", False),
        ("https://openai.com.example.org/v1", False),
        ("http://10.0.0.7:8000/v1", False),
    ],
)
def test_default_key_is_sent_only_to_openai_and_local_servers(url, sent, monkeypatch):
    assert Server(url, "tiny").key == (KEY if sent else "none")
    assert Server(url, "tiny", key_variable="OPENAI_API_KEY").key == KEY
    with pytest.raises(ValueError, match="NO_KEY of the API key is not set"):
        _ = Server(url, "tiny", key_variable="NO_KEY").key


def test_invalid_key_is_rejected_without_showing_it(monkeypatch):
    for value in ("sk secret", "sk-sécret", "sk\nsecret", "sk\x00secret"):
        monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": value})
        with pytest.raises(ValueError, match="not a valid API key") as caught:
            _ = Server("http://localhost/v1", "tiny").key
        assert "cret" not in str(caught.value)


def test_key_is_never_shown(tmp_path, caplog, capfd, monkeypatch):
    """Neither in errors of a server that quotes it, nor in answers, nor in the debug log."""
    caplog.set_level(logging.DEBUG)
    quote = f"your key is {KEY}"
    answers = {"error": (400, {}), "answer": completion(quote, quote, quote), "page": quote}
    with serving(Model(lambda body, before: answers[prompt_of(body)])) as model:
        found = ask(model.address, tmp_path / "a", *answers, retries=0)
    problem, answer, page = found
    assert "Bearer ***" in str(problem) and answer == "your key is ***"
    assert "your key is ***" in str(page)
    texts = [*map(repr, found), str(problem), str(page), caplog.text, *capfd.readouterr()]
    texts += [(tmp_path / "a").read_text(), repr(Server(model.address, "tiny"))]
    assert not any(KEY in text for text in texts)
    # A placeholder for servers without keys may be a word of an answer.
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    with serving(Model(lambda body, before: completion("The jar was EMPTY."))) as model:
        assert ask(model.address, tmp_path / "b", "How?") == ["The jar was EMPTY."]


def test_failed_requests_are_retried(tmp_path):
    soon = {"retry-after-ms": "20"}
    faults = [(429, {"Retry-After": "0.05"}), (500, soon), (503, soon), (408, soon)]
    with serving(Model(first(*faults))) as model:
        assert ask(model.address, tmp_path / "a", "How?") == ["right"]
    assert list(model.asked.values()) == [5]


def test_timeout_and_concurrency(tmp_path):
    with serving(Model(first(), slow=0.2)) as model:
        (problem,) = ask(model.address, tmp_path / "a", "How?", timeout=0.05, retries=0)
    assert isinstance(problem, Rejected) and "within 0.05 seconds" in str(problem)
    with serving(Model(first(), slow=0.05)) as model:
        ask(model.address, tmp_path / "b", *map(str, range(9)), concurrency=3)
    assert model.most_at_once == 3


@pytest.mark.parametrize("part", ["head", "body"])
def test_deadline_of_a_dripping_answer(part, tmp_path):
    """A byte now and then keeps each read in time."""

    def drip(connection, closing):
        text = http(b" " * 10_000, JSON)
        sent = 0 if part == "head" else text.index(b"\r\n\r\n") + 4
        connection.sendall(text[:sent])
        while not closing.wait(0.02):
            connection.sendall(text[sent : sent + 1])
            sent += 1

    with raw_server(drip) as address:
        (found,) = ask(address, tmp_path / "a", "How?", timeout=0.2, retries=0)
    assert isinstance(found, Rejected) and "did not answer within 0.2 seconds" in str(found)


def flood(connection, closing):
    connection.sendall(f"HTTP/1.1 200 OK\r\n{JSON}\r\nConnection: close\r\n\r\n".encode())
    while not closing.is_set():
        connection.sendall(b" " * 10_000)


BOMB = http(gzip.compress(b" " * 50_000_000), JSON, "Content-Encoding: gzip")
"""It is measured decompressed."""


@pytest.mark.parametrize("answer", [flood, BOMB], ids=["endless", "compressed"])
def test_size_of_an_answer_is_bounded(answer, tmp_path, monkeypatch):
    monkeypatch.setattr(chat_module, "MAX_ANSWER", 100_000)
    respond = answer if callable(answer) else lambda connection, _: connection.sendall(answer)
    with raw_server(respond) as address:
        (found,) = ask(address, tmp_path / "a", "How?", retries=0)
    assert isinstance(found, Rejected) and "it is larger than 100,000 bytes" in str(found)


def test_redirects_are_not_followed(tmp_path):
    with serving(Model()) as other:
        with serving(Model(lambda body, before: (307, {"Location": other.address}))) as model:
            (found,) = ask(model.address, tmp_path / "a", "How?")
        assert isinstance(found, ServerError)
        assert f"redirects to {other.address}, which is not followed" in str(found)
        assert not other.bodies and not other.keys


MALFORMED = [
    *(b"[" * 100_000, b'{"a":' * 100_000, b'{"choices": ' + b"[" * 5_000),
    b'{"choices": ' + b"[" * 900 + b"]" * 900 + b"}",
    *(b"<html>Just a moment</html>", b'{"error": "out of memory"}'),
    *(
        json.dumps(completion("right") | {"choices": choices}).encode()
        for choices in (5, {}, [], [5], [{"message": {"content": {"a": 1}}}], None)
    ),
]


def test_malformed_answers(tmp_path):
    """Each is no answer, and no other exception; a compressed one is read."""
    small = http(gzip.compress(json.dumps(completion("right")).encode()), JSON)
    small = small.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n", 1)
    bodies = iter([*(http(body, JSON) for body in MALFORMED), small])
    with raw_server(lambda connection, _: connection.sendall(next(bodies))) as address:
        prompts = list(map(str, range(len(MALFORMED) + 1)))
        found = ask(address, tmp_path / "a", *prompts, retries=0, concurrency=20)
    problems = [problem for problem in found if problem != "right"]
    assert len(problems) == len(MALFORMED)
    assert all(isinstance(problem, Rejected) for problem in problems)
    assert all("is not a chat completion" in str(problem) for problem in problems)


def test_absurd_usage_is_estimated(tmp_path):
    counts = {"0001": -5, "0002": 10**30, "0003": True, "0004": "many", "0005": 1e308, "0006": [1]}

    def absurd(body, before):
        count = counts[prompt_of(body)]
        usage = {"prompt_tokens": count, "completion_tokens": count}
        return completion("12345678é \ud83d") | {"usage": usage}

    with serving(Model(absurd)) as model:
        found = ask(model.address, tmp_path / "a", *counts)
    assert found == ["12345678é ?"] * len(counts), "a lone surrogate can't be saved"
    answers = saved(tmp_path / "a")
    assert {(one.prompt_tokens, one.completion_tokens) for one in answers} == {(1, 3)}


@pytest.mark.parametrize(
    ("status", "kinds", "advice"),
    [
        (400, [Rejected, Rejected, ServerError], "remove it with `fields`"),
        (401, [ServerError] * 3, "check the address, the model and the key"),
        (None, [ServerError] * 3, "can't connect to http://127.0.0.1:9/v1"),
    ],
)
def test_errors_that_end_a_run(status, kinds, advice, tmp_path):
    model = Model(lambda body, before: (status, {}))
    with serving(model):
        address = model.address if status else "http://127.0.0.1:9/v1"
        problems = ask(address, tmp_path / "a", "1", "2", "3", retries=0, concurrency=1)
    assert [type(problem) for problem in problems] == kinds
    assert advice in str(problems[2])
    assert all(times == 1 for times in model.asked.values()), "it is not retried"


def test_failures_in_a_row_end_the_run(tmp_path):
    """A single story that the server can't process does not; nor do refusals, if others are
    answered or were answered before."""

    def picky(body, before):
        kind = prompt_of(body).split()[0]
        return {"bad": (500, {}), "refused": (400, {})}.get(kind, completion("right"))

    prompts = ["bad 1", "bad 2", "good", "bad 3", "bad 4", "bad 5", "good"]
    refused = ["good", *(f"refused {number}" for number in range(5)), "good 2"]
    with serving(Model(picky)) as model:
        answers = ask(model.address, tmp_path / "a", *prompts, retries=0, concurrency=1)
        for _ in range(2):
            found = ask(model.address, tmp_path / "b", *refused, concurrency=1)
            assert [type(answer) for answer in found] == [str, *[Rejected] * 5, str]
    kinds = [Rejected, Rejected, str, Rejected, Rejected, ServerError, str]
    assert [type(answer) for answer in answers] == kinds
    assert "3 requests in a row failed" in str(answers[5])


def test_saved_answers_are_not_requested_again(tmp_path):
    with serving(Model(first())) as model:
        before = Answers(tmp_path / "a")
        ask(model.address, tmp_path / "a", "How?")
        (answer,) = saved(tmp_path / "a")
        # The limits and the concurrency are not in the key of an answer; all other settings are.
        more = {"max_tokens": 10_000, "timeout": 1, "concurrency": 1}
        assert ask(model.address, tmp_path / "a", "How?", **more) == ["right"]
        assert len(model.bodies) == 1
        with before:
            assert before.get(answer.key, 1) == answer, "another run has added it"
        for other in ({"temperature": 0.2}, {"structured": False}, {"fields": {"top_p": 0.9}}):
            ask(model.address, tmp_path / "a", "How?", **other)
    assert len(model.bodies) == 4


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_answer_that_was_cut_off_is_requested_again_with_a_higher_limit(name, tmp_path):
    with serving(Model(lambda body, before: completion("so far", "length"))) as model:
        for limit, requests in ((50, 1), (40, 1), (60, 2), (None, 3), (None, 3)):
            fields = {"max_tokens": None, name: limit}
            (problem,) = ask(model.address, tmp_path / "a", "How?", fields=fields)
            assert "was cut off" in str(problem) and len(model.bodies) == requests
            assert model.bodies[-1].get(name) == {1: 50, 2: 60, 3: None}[requests]


def test_invalid_answer_is_requested_again_with_another_seed(tmp_path):
    texts = [('{"sentence": 1', "length"), ("no",), ('{"sentence": 3}',)]

    def read(text):
        return read_object(text, ["sentence"])["sentence"]

    with serving(Model(lambda body, before: completion(*texts[len(model.bodies) - 1]))) as model:
        # A valid answer that was saved counts, even if an earlier one could now be longer.
        for limit in (50, 500):
            options = {"attempts": 3, "read": read, "seed": 4, "max_tokens": limit}
            assert ask(model.address, tmp_path / "a", "How?", **options) == [3]
    assert len({body["seed"] for body in model.bodies}) == len(model.bodies) == 3
    message = {"role": "assistant", "content": None, "refusal": "I can not help with that."}
    refusal = {"index": 0, "finish_reason": "content_filter", "message": message}
    with serving(Model(lambda body, before: completion("") | {"choices": [refusal]})) as model:
        (rejected,) = ask(model.address, tmp_path / "b", "How?", attempts=2, read=read)
    assert (rejected.attempts, rejected.answer) == (2, "I can not help with that.")
    reason = "the answer contains no JSON object (finish reason 'content_filter')"
    assert str(rejected) == f"t: {reason}"


async def work(chat: Chat, prompt: str):
    return await chat.ask(question(prompt))


def test_answers_under_way_are_saved_if_the_run_fails(tmp_path):
    def key_expires(body, before):
        if prompt_of(body) == "last":
            return 401, {}
        time.sleep(0.3)
        return completion("right")

    with serving(Model(key_expires)) as model, pytest.raises(ServerError, match="answered 401"):
        server = Server(model.address, "tiny", concurrency=4)
        run_jobs(server, tmp_path / "a", ["1", "2", "3", "last", "5"], work)
    assert len(model.bodies) == 4 and model.answered == 3
    assert len(Answers(tmp_path / "a")) == 3


def test_file_of_something_else_is_not_changed(tmp_path):
    for line in ("{}", "[]", "{", '{"key": 1}', "null", "[" * 100_000):
        (tmp_path / "a").write_text(f"{line}\n")
        with pytest.raises(ValueError, match="line 1 is not an answer"):
            Answers(tmp_path / "a")
        assert (tmp_path / "a").read_text() == f"{line}\n"
    (tmp_path / "a").rename(tmp_path / "b.part")
    with pytest.raises(ValueError, match="b.part: line 1 is not an answer"):
        Answers(tmp_path / "b")
    (tmp_path / "link").symlink_to(tmp_path / "b.part")
    with pytest.raises(FileExistsError, match="symbolic link; remove it first"):
        Answers(tmp_path / "link")


def test_run_within_an_event_loop_shows_tokens_and_cost(tmp_path, capsys):
    async def notebook_cell():
        server, prices = Server(model.address, "tiny"), Prices(5_000, 50_000)
        return run_jobs(server, tmp_path / "a", ["1", "2"], work, prices=prices, progress=True)

    with serving(Model(first())) as model:
        run = asyncio.run(notebook_cell())
    assert run.results == ["right"] * 2
    assert (run.asked, run.prompt_tokens, run.completion_tokens) == (2, 200, 20)
    assert "2/2" in (bar := capsys.readouterr().err) and "200 tokens in, 20 out, cost 2.00" in bar
    assert Prices().describe(1, 2) == "1 tokens in, 2 out"


def test_missing_openai_is_reported_with_the_fix(tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "version", lambda name: "0")
    with pytest.raises(ImportError, match=r"narrative_twins\[making\]'.*openai must be >="):
        run_jobs(Server("http://x/v1", "tiny"), tmp_path / "a", [], work)

"""Requests to a language model over HTTP: their content, retries, hostile servers, errors that end
a run, saved answers, the API key."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import time

import pytest

from narrative_twins.files import digest
from narrative_twins.llm import chat as chat_module
from narrative_twins.llm.answers import Answer, Answers
from narrative_twins.llm.chat import Chat, NoAnswer, ServerError
from narrative_twins.llm.prompts import read_object, schema_of
from narrative_twins.llm.running import Prices, Rejected, Step, run_jobs
from narrative_twins.llm.server import Question, Server, redact, seed_of

from support.chat_server import Model, completion, prompt_of, serving
from support.raw_server import http, raw_server

KEY = "sk-very-secret-0123456789"
SCHEMA = schema_of({"sentence": {"type": "integer"}})
JSON = "Content-Type: application/json"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(address: str, path, *prompts: str, **options) -> list:
    """The answers to prompts, or the errors that were raised."""
    server = Server(address, "tiny", **options)

    async def ask_all():
        with Answers(path) as answers:
            async with Chat(server, answers) as chat:
                questions = [Question("s", "t", 0, prompt, SCHEMA, 7) for prompt in prompts]
                return await asyncio.gather(*map(chat.ask, questions), return_exceptions=True)

    return asyncio.run(ask_all())


def first(*answers):
    """A model that gives these responses first, and then the answer `right`."""
    return lambda body, before: answers[before] if before < len(answers) else completion("right")


def read_sentence(text: str) -> int:
    return read_object(text, ["sentence"])[0]


def ask_valid(address: str, path, attempts: int, read=read_sentence, **options):
    async def work(ask, prompt):
        return await ask(Step(digest(prompt), "step", prompt, SCHEMA, read))

    server = Server(address, "tiny", **options)
    return run_jobs(server, path, ["How?"], work, attempts=attempts).results[0]


def test_request(tmp_path):
    fields = {
        "seed": None,
        "max_tokens": None,
        "max_completion_tokens": 50,
        "chat_template_kwargs": {"thinking": False},
    }
    with serving(Model(first())) as model:
        (answer,) = ask(model.address, tmp_path / "a", "How?", temperature=0.5, max_tokens=99)
        ask(model.address, tmp_path / "a", "How?", structured=False, fields=fields)
    assert model.keys == [f"Bearer {KEY}"] * 2
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "How?"}]}
    schema = {"name": "answer", "schema": SCHEMA, "strict": True}
    limits = {"temperature": 0.5, "max_tokens": 99, "seed": 7}
    assert model.bodies == [
        asked | limits | {"response_format": {"type": "json_schema", "json_schema": schema}},
        asked
        | {"temperature": 1.0, "max_completion_tokens": 50}
        | {"chat_template_kwargs": {"thinking": False}},
    ]
    assert answer == Answer(answer.key, "s", "t", 0, "tiny", "right", "stop", 99, 100, 10)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"concurrency": 0}, "concurrency=0"),
        ({"retries": -1}, "retries=-1"),
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"timeout": 0.0}, "timeout=0.0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"fields": {"stream": None}}, "the request field 'stream' is set by the package"),
        *(
            ({"url": url}, "the address of the server|the server's address")
            for url in (
                "localhost:8000",
                "ftp://x/v1",
                "http://me:sk-1@x/v1",
                "http://sk-1@x/v1",
                "http://x/v1?key=sk-1",
                "http://",
                "http://localhost:99999/v1",
                "http://[::1/v1",
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
        ("https://api.openai.com/v1", True),
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
    monkeypatch.setenv("MY_KEY", " mine\n")
    assert Server(url, "tiny", key_variable="MY_KEY").key == "mine"
    with pytest.raises(ValueError, match="NO_KEY is not set"):
        _ = Server(url, "tiny", key_variable="NO_KEY").key
    assert redact("The jar was EMPTY.", "EMPTY") == "The jar was EMPTY.", "a placeholder"


@pytest.mark.parametrize("value", ["sk secret", "sk-sécret", "sk\nsecret", "sk\x00secret"])
def test_invalid_key_is_rejected_without_showing_it(value, monkeypatch):
    monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": value})
    with pytest.raises(ValueError, match="not a valid API key") as caught:
        _ = Server("http://localhost/v1", "tiny").key
    assert "cret" not in str(caught.value)


def test_key_is_never_shown(tmp_path, caplog, capfd):
    """Neither in errors of a server that quotes it, nor in answers, nor in the debug log."""
    caplog.set_level(logging.DEBUG)
    quote = f"your key is {KEY}"
    answers = {"error": (400, {}), "answer": completion(quote, quote, quote), "page": quote}

    with serving(Model(lambda body, before: answers[prompt_of(body)])) as model:
        found = ask(model.address, tmp_path / "a", *answers, retries=0)
    problem, answer, page = found
    assert "Bearer ***" in str(problem) and answer.text == "your key is ***"
    assert "your key is ***" in str(page)
    texts = [*map(repr, found), str(problem), str(page), caplog.text, *capfd.readouterr()]
    texts += [(tmp_path / "a").read_text(), repr(Server(model.address, "tiny"))]
    assert not any(KEY in text for text in texts)


def test_failed_requests_are_retried(tmp_path):
    soon = {"retry-after-ms": "20"}
    faults = [(429, {"Retry-After": "0.05"}), (500, soon), (503, soon), (408, soon)]
    with serving(Model(first(*faults))) as model:
        (answer,) = ask(model.address, tmp_path / "a", "How?")
        assert answer.text == "right" and list(model.asked.values()) == [5]
    with serving(Model(first((429, {"Retry-After": "1.2"})))) as model:
        start = time.monotonic()
        ask(model.address, tmp_path / "b", "How?")
    assert time.monotonic() - start >= 1.2, "it waits as long as the server requests"


def test_timeout_and_concurrency(tmp_path):
    with serving(Model(first(), slow=0.4)) as model:
        (problem,) = ask(model.address, tmp_path / "a", "How?", timeout=0.1, retries=0)
    assert isinstance(problem, NoAnswer) and "within 0.1 seconds" in str(problem)
    with serving(Model(first(), slow=0.05)) as model:
        ask(model.address, tmp_path / "b", *map(str, range(12)), concurrency=3)
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
        (found,) = ask(address, tmp_path / "a", "How?", timeout=0.5, retries=0)
    assert isinstance(found, NoAnswer) and "did not answer within 0.5 seconds" in str(found)


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
    assert isinstance(found, NoAnswer) and "it is larger than 100,000 bytes" in str(found)


def test_compressed_answer_is_read(tmp_path):
    small = http(gzip.compress(json.dumps(completion("right")).encode()), JSON)
    small = small.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n", 1)
    with raw_server(lambda connection, _: connection.sendall(small)) as address:
        assert ask(address, tmp_path / "a", "How?")[0].text == "right"


def test_redirects_are_not_followed(tmp_path):
    with serving(Model()) as other:
        with serving(Model(lambda body, before: (307, {"Location": other.address}))) as model:
            (found,) = ask(model.address, tmp_path / "a", "How?")
        assert isinstance(found, ServerError)
        assert f"redirects to {other.address}, which is not followed" in str(found)
        assert not other.bodies and not other.keys


MALFORMED = [
    *(b"[" * 100_000, b'{"a":' * 100_000, b'{"choices": ' + b"[" * 5_000),
    *(b"<html>Just a moment</html>", b'{"error": "out of memory"}'),
    *(
        json.dumps(completion("right") | {"choices": choices}).encode()
        for choices in (5, {}, [], [5], [{"message": {"content": {"a": 1}}}], None)
    ),
]


def test_malformed_answers(tmp_path):
    """Each is no answer, and no other exception."""
    bodies = iter(MALFORMED)
    with raw_server(lambda connection, _: connection.sendall(http(next(bodies), JSON))) as address:
        prompts = map(str, range(len(MALFORMED)))
        found = ask(address, tmp_path / "a", *prompts, retries=0, concurrency=len(MALFORMED) + 1)
    assert all(isinstance(problem, NoAnswer) for problem in found)
    assert all("is not a chat completion" in str(problem) for problem in found)


def test_absurd_usage_is_estimated(tmp_path):
    for count in (-5, 10**30, True, "many", 1e308, None, [1]):
        usage = {"prompt_tokens": count, "completion_tokens": count}
        answer = completion("12345678é") | {"usage": usage}
        with serving(Model(lambda body, before: answer)) as model:  # noqa: B023
            (found,) = ask(model.address, tmp_path / f"{count}", "1234")
        assert (found.prompt_tokens, found.completion_tokens) == (1, 3)


@pytest.mark.parametrize(
    ("status", "kinds", "advice"),
    [
        (400, [NoAnswer, NoAnswer, ServerError], "remove it with `fields`"),
        (401, [ServerError] * 3, "check the address, the model and the key"),
        (404, [ServerError] * 3, "check the address, the model and the key"),
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
    refused = ["good", *(f"refused {number}" for number in range(9)), "good 2"]
    with serving(Model(picky)) as model:
        answers = ask(model.address, tmp_path / "a", *prompts, retries=0, concurrency=1)
        for _ in range(2):
            found = ask(model.address, tmp_path / "b", *refused, concurrency=1)
            assert [isinstance(answer, Answer) for answer in found] == [True, *[False] * 9, True]
            assert all(isinstance(problem, NoAnswer) for problem in found[1:-1])
    kinds = [NoAnswer, NoAnswer, Answer, NoAnswer, NoAnswer, ServerError, Answer]
    assert [type(answer) for answer in answers] == kinds
    assert "3 requests in a row failed" in str(answers[5])


def test_saved_answers_are_not_requested_again(tmp_path):
    with serving(Model(first())) as model:
        before = Answers(tmp_path / "a")
        (answer,) = ask(model.address, tmp_path / "a", "How?")
        # The limits and the concurrency are not in the key of an answer; all other settings are.
        for same in ({}, {"max_tokens": 10_000, "timeout": 1, "concurrency": 1}):
            assert ask(model.address, tmp_path / "a", "How?", **same) == [answer]
        assert len(model.bodies) == 1
        with before:
            assert before.get(answer.key, 1) == answer, "another run has added it"
        for other in ({"temperature": 0.2}, {"structured": False}, {"fields": {"top_p": 0.9}}):
            ask(model.address, tmp_path / "a", "How?", **other)
    assert len(model.bodies) == 4


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_answer_that_was_cut_off_is_requested_again_with_a_higher_limit(name, tmp_path):
    with serving(Model(lambda body, before: completion("so far", "length"))) as model:
        for limit, requests in ((50, 1), (50, 1), (40, 1), (60, 2), (None, 3), (None, 3)):
            fields = {"max_tokens": None, name: limit}
            (answer,) = ask(model.address, tmp_path / "a", "How?", fields=fields)
            assert answer.is_truncated and len(model.bodies) == requests
            assert model.bodies[-1].get(name) == {1: 50, 2: 60, 3: None}[requests]


def test_invalid_answer_is_requested_again_with_another_seed(tmp_path):
    answers = [
        completion('{"sentence": 1', "length"),
        completion("no"),
        completion('{"sentence": 3}'),
    ]
    with serving(Model(lambda body, before: answers[len(model.bodies) - 1])) as model:
        # A valid answer that was saved counts, even if an earlier one could now be longer.
        for limit in (50, 50, 500):
            assert ask_valid(model.address, tmp_path / "a", 3, seed=4, max_tokens=limit) == 3
    seeds = [seed_of(4, digest("How?"), "step", n) for n in range(3)]
    assert [body["seed"] for body in model.bodies] == seeds and len(set(seeds)) == 3
    message = {"role": "assistant", "content": None, "refusal": "I can not help with that."}
    refusal = {"index": 0, "finish_reason": "content_filter", "message": message}
    with serving(Model(lambda body, before: completion("") | {"choices": [refusal]})) as model:
        rejected = ask_valid(model.address, tmp_path / "b", 2)
    assert isinstance(rejected, Rejected)
    assert (rejected.attempts, rejected.answer) == (2, "I can not help with that.")
    reason = "the answer contains no JSON object (finish reason 'content_filter')"
    assert str(rejected) == f"step: {reason}"


def test_answers_under_way_are_saved_if_the_run_fails(tmp_path):
    def key_expires(body, before):
        if prompt_of(body) == "last":
            return 401, {}
        time.sleep(0.4)
        return completion("right")

    async def work(ask, prompt):
        return await ask.chat.ask(Question("s", "t", 0, prompt, SCHEMA, 7))

    with serving(Model(key_expires)) as model, pytest.raises(ServerError, match="answered 401"):
        server = Server(model.address, "tiny", concurrency=4)
        run_jobs(server, tmp_path / "a", ["1", "2", "3", "last", "5"], work)
    assert len(model.bodies) == 4 and model.answered == 3
    assert len(Answers(tmp_path / "a")) == 3


def test_truncated_line_is_requested_again(tmp_path):
    with serving(Model(first(completion("half \ud83d, whole 🦊")))) as model:
        (answer, _) = ask(model.address, tmp_path / "a", "How?", "Why?")
        assert answer.text == "half ?, whole 🦊", "a lone surrogate can't be saved"
        lines = (tmp_path / "a").read_bytes().splitlines(keepends=True)
        (tmp_path / "a").unlink()
        (tmp_path / "a.part").write_bytes(lines[0] + lines[1][:-7])
        ask(model.address, tmp_path / "a", "How?", "Why?")
    assert sorted(model.asked.values()) == [1, 2]


def test_file_of_something_else_is_not_changed(tmp_path):
    for line in ("{}", "[]", "{", '{"key": 1}', "null"):
        (tmp_path / "a").write_text(f"{line}\n")
        with pytest.raises(ValueError, match="line 1 is not an answer"):
            Answers(tmp_path / "a")
        assert (tmp_path / "a").read_text() == f"{line}\n"
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(FileExistsError, match="symbolic link; remove it first"):
        Answers(tmp_path / "link")


def test_run_within_an_event_loop(tmp_path):
    async def notebook_cell():
        return ask_valid(model.address, tmp_path / "a", 1, str)

    with serving(Model(first())) as model:
        assert asyncio.run(notebook_cell()) == "right"


def test_progress_shows_tokens_and_cost(tmp_path, capsys):
    async def work(ask, prompt):
        return await ask.chat.ask(Question("s", "t", 0, prompt, SCHEMA, 7))

    with serving(Model(first())) as model:
        server, prices = Server(model.address, "tiny"), Prices(5_000, 50_000)
        run = run_jobs(server, tmp_path / "a", ["1", "2"], work, prices=prices, progress=True)
    assert (run.asked, run.prompt_tokens, run.completion_tokens) == (2, 200, 20)
    assert "2/2" in (bar := capsys.readouterr().err) and "200 tokens in, 20 out, cost 2.00" in bar
    assert Prices().describe(1, 2) == "1 tokens in, 2 out"


def test_missing_openai_is_reported_with_the_fix(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install narrative_twins\[making\]"):
        run_jobs(Server("http://x/v1", "tiny"), tmp_path / "a", [], lambda chat, job: None)

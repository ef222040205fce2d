"""Requests to a language model over HTTP: their content, retries, errors that end a run, saved
answers, the API key."""

from __future__ import annotations

import asyncio
import json
import logging
import time

import pytest

from narrative_twins.baselines.styles import read_choice
from narrative_twins.llm.answers import Answer, Answers, digest, seed_of
from narrative_twins.llm.chat import Chat, NoAnswer, ServerError
from narrative_twins.llm.json_answers import schema_of
from narrative_twins.llm.running import Prices, Rejected, ask_until_valid, run_jobs
from narrative_twins.llm.server import Question, Secret, Server

from support.chat_server import Model, completion, prompt_of, serving

KEY = "sk-very-secret-0123456789"
SCHEMA = schema_of({"sentence": {"type": "integer"}})


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(model: Model, path, *prompts: str, **options) -> list:
    """The answers to prompts, or the errors that were raised."""
    server = Server(model.address, "tiny", **options)

    async def ask_all():
        with Answers(path) as answers:
            async with Chat(server, answers) as chat:
                questions = [Question("s", "t", 0, prompt, SCHEMA, 7) for prompt in prompts]
                return await asyncio.gather(*map(chat.ask, questions), return_exceptions=True)

    return asyncio.run(ask_all())


def first(*answers):
    """A model that gives these responses first, and then the answer `right`."""
    return lambda body, before: answers[before] if before < len(answers) else completion("right")


def test_request(tmp_path):
    with serving(Model(first())) as model:
        (answer,) = ask(model, tmp_path / "a", "How?", temperature=0.5, max_tokens=99)
    assert model.keys == [f"Bearer {KEY}"]
    assert model.bodies == [
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "How?"}],
            "temperature": 0.5,
            "max_tokens": 99,
            "seed": 7,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
            },
        }
    ]
    assert answer == Answer(answer.key, "s", "t", 0, "tiny", "right", "stop", 99, 100, 10)


def test_fields_change_the_request(tmp_path):
    fields = {
        "seed": None,
        "max_tokens": None,
        "max_completion_tokens": 50,
        "chat_template_kwargs": {"thinking": False},
    }
    with serving(Model(first())) as model:
        ask(model, tmp_path / "a", "How?", structured=False, fields=fields)
    assert model.bodies == [
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "How?"}],
            "temperature": 1.0,
            "max_completion_tokens": 50,
            "chat_template_kwargs": {"thinking": False},
        }
    ]


@pytest.mark.parametrize("name", ["model", "messages", "n", "stream"])
def test_reserved_fields_are_rejected(name):
    with pytest.raises(ValueError, match=f"the request field '{name}' is set by the package"):
        Server("http://x/v1", "tiny", fields={name: None})


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"retries": -1},
        {"max_tokens": 0},
        {"timeout": 0.0},
        {"temperature": float("nan")},
    ],
)
def test_invalid_numbers_are_rejected(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}={next(iter(wrong.values()))}"):
        Server("http://x/v1", "tiny", **wrong)


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
def test_default_key_is_sent_only_to_openai_and_local_servers(url, sent):
    assert (Server(url, "tiny").key.reveal() == KEY) == sent
    assert Server(url, "tiny", key_variable="OPENAI_API_KEY").key.reveal() == KEY


def test_no_key(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving(Model(first())) as model:
        ask(model, tmp_path / "a", "How?")
    assert model.keys == ["Bearer none"]


def test_placeholder_for_a_key_is_not_hidden(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    assert Secret("OPENAI_API_KEY").redact("The jar was EMPTY.") == "The jar was EMPTY."


def test_key_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", " mine\n")
    with serving(Model(first())) as model:
        ask(model, tmp_path / "a", "How?", key_variable="MY_KEY")
    assert model.keys == ["Bearer mine"]
    with pytest.raises(ValueError, match="NO_KEY is not set"):
        Secret("NO_KEY")


@pytest.mark.parametrize("value", ["sk secret", "sk-sécret", "sk\nsecret", "sk\x00secret"])
def test_invalid_key_is_rejected_without_showing_it(value, monkeypatch):
    monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": value})
    with pytest.raises(ValueError, match="not a valid API key") as caught:
        Secret("OPENAI_API_KEY")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://x/v1",
        "http://me:sk-1@x/v1",
        "http://sk-1@x/v1",
        "http://x/v1?key=sk-1",
        "http://",
    ],
)
def test_invalid_addresses_are_rejected_without_showing_keys(url):
    with pytest.raises(
        ValueError, match="the address of the server|the server's address"
    ) as caught:
        Server(url, "tiny")
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize(
    "faults",
    [
        [(429, {"Retry-After": "0.05"}), (429, {"Retry-After": "0.05"})],
        [
            (500, {"retry-after-ms": "20"}),
            (503, {"retry-after-ms": "20"}),
            (408, {"retry-after-ms": "20"}),
        ],
        ["<html>Just a moment</html>"],
        [{"choices": []}],
        [{"error": "out of memory"}],
        [{"choices": [{"message": {"content": ["no", "text"]}, "finish_reason": "stop"}]}],
    ],
    ids=["busy", "failing", "html", "no choice", "error", "no text"],
)
def test_failed_requests_are_retried(faults, tmp_path):
    with serving(Model(first(*faults))) as model:
        (answer,) = ask(model, tmp_path / "a", "How?")
    assert answer.text == "right"
    assert list(model.asked.values()) == [len(faults) + 1]


def test_retry_waits_as_long_as_the_server_requests(tmp_path):
    with serving(Model(first((429, {"Retry-After": "1.5"})))) as model:
        start = time.monotonic()
        ask(model, tmp_path / "a", "How?")
    assert time.monotonic() - start >= 1.5


def test_timeout(tmp_path):
    with serving(Model(first(), slow=0.5)) as model:
        (problem,) = ask(model, tmp_path / "a", "How?", timeout=0.1, retries=0, concurrency=4)
    assert isinstance(problem, NoAnswer) and "within 0.1 seconds" in str(problem)


def test_refused_request_is_not_retried(tmp_path):
    with serving(Model(lambda body, before: (400, {}))) as model:
        (problem,) = ask(model, tmp_path / "a", "How?")
    assert isinstance(problem, NoAnswer) and "answered 400: a fault" in str(problem)
    assert list(model.asked.values()) == [1]


def test_server_that_refuses_all_requests_ends_the_run_with_advice(tmp_path):
    with serving(Model(lambda body, before: (400, {}))) as model:
        problems = ask(model, tmp_path / "a", *map(str, range(3)), concurrency=1)
    assert isinstance(problems[2], ServerError) and "remove it with `fields`" in str(problems[2])


def test_refused_stories_do_not_end_the_run_if_others_are_answered(tmp_path):
    """Neither if they follow each other, nor if the answers to the others were saved before."""

    def picky(body, before):
        return (400, {}) if "bad" in prompt_of(body) else completion("right")

    prompts = ["good", *(f"bad {number}" for number in range(9)), "good 2"]
    with serving(Model(picky)) as model:
        for _ in range(2):
            answers = ask(model, tmp_path / "a", *prompts, concurrency=1)
            assert [type(answer) for answer in answers] == [Answer, *[NoAnswer] * 9, Answer]
    assert model.asked["good", 7] == model.asked["good 2", 7] == 1


def test_refusal_of_the_model_is_saved_as_the_answer(tmp_path):
    message = {"role": "assistant", "content": None, "refusal": "I can not help with that."}
    refused = {
        **completion(""),
        "choices": [{"index": 0, "finish_reason": "content_filter", "message": message}],
    }
    with serving(Model(lambda body, before: refused)) as model:
        rejected = ask_valid(model, tmp_path / "a", read_sentence, 1)
    assert rejected.answer == "I can not help with that."
    assert rejected.reason == "the answer contains no JSON object (finish reason 'content_filter')"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_fatal_status_ends_the_run(status, tmp_path):
    with serving(Model(lambda body, before: (status, {}))) as model:
        (problem,) = ask(model, tmp_path / "a", "How?")
    assert isinstance(problem, ServerError)
    assert f"answered {status}" in str(
        problem
    ) and "check the address, the model and the key" in str(problem)


def test_failures_in_a_row_end_the_run(tmp_path):
    """A single story that the server can't process does not."""

    def poisoned(body, before):
        return (500, {}) if prompt_of(body).startswith("bad") else completion("right")

    prompts = ["bad 1", "bad 2", "good", "bad 3", "bad 4", "bad 5", "good"]
    with serving(Model(poisoned)) as model:
        answers = ask(model, tmp_path / "a", *prompts, retries=0, concurrency=1)
    kinds = [NoAnswer, NoAnswer, Answer, NoAnswer, NoAnswer, ServerError, Answer]
    assert [type(answer) for answer in answers] == kinds
    assert "3 requests in a row failed" in str(answers[5])


def test_no_server(tmp_path):
    model = Model()
    model.address = "http://127.0.0.1:9/v1"
    problems = ask(model, tmp_path / "a", "1", "2", "3", retries=0, concurrency=3)
    assert isinstance(problems[2], ServerError)
    assert "can't connect to http://127.0.0.1:9/v1" in str(problems[2])


def test_concurrency(tmp_path):
    with serving(Model(first(), slow=0.05)) as model:
        ask(model, tmp_path / "a", *map(str, range(12)), concurrency=3)
    assert model.most_at_once == 3


def test_key_is_never_shown(tmp_path, caplog, capfd):
    """Neither in errors of a server that quotes it, nor in answers, nor in the debug log."""
    caplog.set_level(logging.DEBUG)

    def quoting(body, before):
        key = f"your key is {KEY}"
        return (
            (400, {})
            if prompt_of(body) == "error"
            else completion(key, key, key)
            if prompt_of(body) == "answer"
            else key
        )

    with serving(Model(quoting)) as model:
        problem, answer, page = ask(
            model, tmp_path / "a", "error", "answer", "page", retries=0, concurrency=8
        )
    assert (
        "your key is ***" in str(page)
        and "Bearer ***" in str(problem)
        and answer.text == "your key is ***"
    )
    texts = [
        str(problem),
        repr(problem),
        repr(answer),
        str(page),
        repr(page),
        caplog.text,
        *capfd.readouterr(),
    ]
    texts += [
        (tmp_path / "a").read_text(),
        repr(Secret("OPENAI_API_KEY")),
        repr(Server(model.address, "tiny")),
    ]
    assert not any(KEY in text for text in texts)


def test_saved_answers_are_not_requested_again(tmp_path):
    with serving(Model(first())) as model:
        (answer,) = ask(model, tmp_path / "a", "How?")
        assert ask(model, tmp_path / "a", "How?") == [answer]
        # The limits and the concurrency are not in the key of an answer; all other settings are.
        assert ask(model, tmp_path / "a", "How?", max_tokens=10_000, timeout=1, concurrency=1) == [
            answer
        ]
        assert len(model.bodies) == 1
        for other in ({"temperature": 0.2}, {"structured": False}, {"fields": {"top_p": 0.9}}):
            ask(model, tmp_path / "a", "How?", **other)
    assert len(model.bodies) == 4


def test_answer_that_was_cut_off_is_requested_again_with_a_higher_limit(tmp_path):
    with serving(Model(lambda body, before: completion("so far", "length"))) as model:
        for limit, requests in ((50, 1), (50, 1), (40, 1), (60, 2), (60, 2)):
            (answer,) = ask(model, tmp_path / "a", "How?", max_tokens=limit)
            assert answer.is_truncated and len(model.bodies) == requests


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_limit_in_fields(name, tmp_path):
    with serving(Model(lambda body, before: completion("so far", "length"))) as model:
        for limit, requests in ((50, 1), (50, 1), (60, 2), (None, 3), (None, 3)):
            fields = {"max_tokens": None, name: limit}
            (answer,) = ask(model, tmp_path / "a", "How?", fields=fields)
            assert answer.is_truncated and len(model.bodies) == requests
            assert model.bodies[-1].get(name) == (limit if requests < 3 else None)


def test_higher_limit_repeats_no_request_if_a_later_answer_was_valid(tmp_path):
    answers = [
        completion('{"sentence": 1', "length"),
        completion('{"sentence": 2}'),
        completion('{"sentence": 3}'),
    ]
    with serving(Model(lambda body, before: answers[len(model.bodies) - 1])) as model:
        for limit in (50, 50, 500):
            assert ask_valid(model, tmp_path / "a", read_sentence, 3, max_tokens=limit) == 2
        assert len(model.bodies) == 2


def test_answers_under_way_are_saved_if_the_run_fails(tmp_path):
    def key_expires(body, before):
        if prompt_of(body) == "last":
            return 401, {}
        time.sleep(0.4)
        return completion("right")

    async def work(chat, prompt):
        return await chat.ask(Question("s", "t", 0, prompt, SCHEMA, 7))

    with serving(Model(key_expires)) as model, pytest.raises(ServerError, match="answered 401"):
        run_jobs(
            Server(model.address, "tiny", concurrency=4),
            tmp_path / "a",
            ["1", "2", "3", "last", "5"],
            work,
        )
    assert len(model.bodies) == 4 and model.answered == 3
    assert len(Answers(tmp_path / "a")) == 3


def test_lone_surrogates_can_be_saved(tmp_path):
    with serving(Model(first(completion("half \ud83d, whole 🦊")))) as model:
        (answer,) = ask(model, tmp_path / "a", "How?")
    assert answer.text == "half ?, whole 🦊"
    assert [json.loads(line)["text"] for line in (tmp_path / "a").read_text().splitlines()] == [
        answer.text
    ]


def test_truncated_line_is_requested_again(tmp_path):
    with serving(Model(first())) as model:
        ask(model, tmp_path / "a", "How?", "Why?")
        lines = (tmp_path / "a").read_bytes().splitlines(keepends=True)
        (tmp_path / "a").unlink()
        (tmp_path / "a.part").write_bytes(lines[0] + lines[1][:-7])
        ask(model, tmp_path / "a", "How?", "Why?")
    assert sorted(model.asked.values()) == [1, 2]
    assert sorted((tmp_path / "a").read_bytes().splitlines(keepends=True)) == sorted(lines)


@pytest.mark.parametrize("line", ["{}", "[]", "{", '{"key": 1}', "null"])
def test_file_of_something_else_is_not_changed(line, tmp_path):
    (tmp_path / "a").write_text(f"{line}\n")
    with pytest.raises(ValueError, match="line 1 is not an answer"):
        Answers(tmp_path / "a")
    assert (tmp_path / "a").read_text() == f"{line}\n"


def test_two_runs_can_not_write_the_same_file(tmp_path):
    with Answers(tmp_path / "a"), pytest.raises(FileExistsError, match="written by another run"):
        Answers(tmp_path / "a").__enter__()


def test_answers_that_another_run_has_just_added_are_read(tmp_path):
    with serving(Model(first())) as model:
        opened_before = Answers(tmp_path / "a")
        (answer,) = ask(model, tmp_path / "a", "How?")
    with opened_before:
        assert opened_before.get(answer.key, 1) == answer and len(opened_before) == 1


def read_sentence(text: str) -> int:
    return read_choice(text, (0, 5))


def ask_valid(model: Model, path, read, attempts: int, **options):
    server = Server(model.address, "tiny", **options)

    async def work(chat, prompt):
        return await ask_until_valid(chat, digest(prompt), "step", prompt, SCHEMA, read, attempts)

    return run_jobs(server, path, ["How?"], work).results[0]


def test_invalid_answer_is_requested_again_with_another_seed(tmp_path):
    answers = [completion("{", "length"), completion("no"), completion('{"sentence": 3}')]
    with serving(Model(lambda body, before: answers[len(model.bodies) - 1])) as model:
        assert ask_valid(model, tmp_path / "a", read_sentence, 3, seed=4) == 3
    assert [body["seed"] for body in model.bodies] == [
        seed_of(4, digest("How?"), "step", n) for n in range(3)
    ]
    assert len({body["seed"] for body in model.bodies}) == 3
    with serving(Model(lambda body, before: completion("no"))) as model:
        rejected = ask_valid(model, tmp_path / "b", read_sentence, 2)
    assert isinstance(rejected, Rejected) and (rejected.attempts, rejected.answer) == (2, "no")
    assert str(rejected) == "step: the answer contains no JSON object"


def test_run_within_an_event_loop(tmp_path):
    async def notebook_cell():
        return ask_valid(model, tmp_path / "a", str, 1)

    with serving(Model(first())) as model:
        assert asyncio.run(notebook_cell()) == "right"


def test_progress_shows_tokens_and_cost(tmp_path, capsys):
    async def work(chat, prompt):
        return await chat.ask(Question("s", "t", 0, prompt, SCHEMA, 7))

    with serving(Model(first())) as model:
        server = Server(model.address, "tiny")
        run = run_jobs(
            server, tmp_path / "a", ["1", "2"], work, prices=Prices(5_000, 50_000), progress=True
        )
    assert (run.asked, run.prompt_tokens, run.completion_tokens) == (2, 200, 20)
    assert "2/2" in (bar := capsys.readouterr().err) and "200 tokens in, 20 out, cost 2.00" in bar


def test_prices():
    prices = Prices(input=2.0, output=10.0)
    assert prices.cost(1_500_000, 100_000) == pytest.approx(4.0)
    assert prices.describe(1_500_000, 100_000) == "1,500,000 tokens in, 100,000 out, cost 4.00"
    assert Prices().describe(1, 2) == "1 tokens in, 2 out"


def test_tokens_are_estimated_if_the_server_does_not_count_them(tmp_path):
    answer = {**completion("12345678é"), "usage": None}
    with serving(Model(lambda body, before: answer)) as model:
        (found,) = ask(model, tmp_path / "a", "1234")
    assert (found.prompt_tokens, found.completion_tokens) == (1, 3)


def test_missing_openai_is_reported_with_the_fix(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install narrative_twins\[making\]"):
        run_jobs(Server("http://x/v1", "tiny"), tmp_path / "a", [], lambda chat, job: None)

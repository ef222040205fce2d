"""Questions to a language model over HTTP: the request, the log of answers, failures that end a
run, the API key."""

import json
import time

import pytest

from narrative_twins import extras
from narrative_twins.prompting.chat import Chat, Question, Rejected, Server, ServerError
from narrative_twins.prompting.templates import answer_form, integer

from support.chat_server import Model, completion, prompt_of, serving
from support.rows import read_rows

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def right(sentence: int = 3, finish: str = "stop"):
    return completion(json.dumps({"sentence": sentence}), finish)


def question(prompt: str, sample: int = 0) -> Question:
    form = answer_form(sentence=integer(1, 5))
    return Question("step", prompt, form, lambda answer: answer["sentence"], sample)


def ask(address: str, path, *prompts: str, attempts=1, **options) -> list:
    """The results of prompts, one after the other, or their errors."""
    found: list = []
    server = Server(address, "tiny", **{"retries": 0, "concurrency": 1, **options})
    with Chat(server, path / "a", attempts) as chat:
        for prompt in prompts:
            try:
                found.append(chat.ask(question(prompt)))
            except (Rejected, ServerError) as error:
                found.append(error)
    return found


REASONING = {"max_completion_tokens": 50, "reasoning_effort": "low", "temperature": None}


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"temperature": 0.5}, {"temperature": 0.5, "max_tokens": 4000}),
        ({"request": {"max_tokens": 9, "seed": 1}}, {"temperature": 1.0, "max_tokens": 9, "seed": 1}),
        ({"request": REASONING}, {"max_completion_tokens": 50, "reasoning_effort": "low"}),
        ({"request": {"response_format": None}}, {"temperature": 1.0, "max_tokens": 4000}),
    ],
)  # fmt: skip
def test_request(options, fields, tmp_path):
    with serving(Model(lambda body, before: right())) as model:
        assert ask(model.address, tmp_path, "How?", **options) == [3]
    (body,) = model.bodies
    assert model.keys == [f"Bearer {KEY}"]
    if "response_format" not in options.get("request", ()):
        form = body.pop("response_format")["json_schema"]
        assert form["strict"] and form["schema"]["properties"]["sentence"]["maximum"] == 5
    expected = {"model": "tiny", "messages": [{"role": "user", "content": "How?"}], **fields}
    assert {"seed": body["seed"], **expected} == body


def test_logged_answers_are_not_requested_again(tmp_path):
    """With the same settings, except for the limit of the length, the concurrency and the address."""
    with serving(Model(lambda body, before: right())) as model:
        ask(model.address, tmp_path, "How?", "How?")
        ask(model.address + "/", tmp_path, "How?", request={"max_tokens": 9}, concurrency=2)
        assert len(model.bodies) == 1
        for other in ({"temperature": 0.2}, {"seed": 2}, {"request": {"top_p": 0.9}}):
            ask(model.address, tmp_path, "How?", **other)
        assert len(model.bodies) == 4
        # Answers in the log need no server.
        assert ask("http://127.0.0.1:9/v1", tmp_path, "How?") == [3]
    row, *_ = read_rows(tmp_path / "a")
    assert len(row.pop("key")) == 32, "a digest; the API key is in no file"
    logged = {"step": "step", "model": "tiny", "finish": "stop", "text": '{"sentence": 3}'}
    assert row == logged | {"limit": [4000], "prompt_tokens": 100, "answer_tokens": 10}


def test_equal_questions_at_once_are_asked_once(tmp_path, capsys):
    with serving(Model(lambda body, before: right(), slow=0.1)) as model:
        with Chat(Server(model.address, "tiny"), tmp_path / "a") as chat:
            jobs = ["1", "2", "1", "1"]
            found = chat.ask_each(jobs, lambda one: chat.ask(question(one)), progress=True)
            assert "4/4" in (bar := capsys.readouterr().err) and "200 tokens in, 20 out" in bar
            # Samples of a question have seeds of their own.
            for sample in (0, 1, 2):
                chat.ask(question("1", sample))
        assert found == [3] * 4 and len({body["seed"] for body in model.bodies}) == 4
        assert len(model.bodies) == 4 and chat.usage == "new answers: 4 (400 tokens in, 40 out)"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_answer_that_was_cut_off_is_requested_again_with_another_limit(name, tmp_path):
    with serving(Model(lambda body, before: right(finish="length"))) as model:
        for limit, requests in ((50, 1), (50, 1), (60, 2), (None, 3), (None, 3)):
            fields = {"max_tokens": None, name: limit}
            (problem,) = ask(model.address, tmp_path, "How?", request=fields)
            assert "was cut off" in str(problem) and len(model.bodies) == requests
        # A valid answer that is logged counts, even if an earlier one could now be longer.
        model.answer = lambda body, before: right()
        for fields in ({name: None}, {name: 70}):
            assert ask(model.address, tmp_path, "How?", attempts=2, request=fields) == [3]
        assert len(model.bodies) == 4


def test_invalid_answer_is_requested_again_with_another_seed(tmp_path):
    texts = ["no", '{"sentence": 9}', '{"sentence": 3}']
    with serving(Model(lambda body, before: completion(texts[len(model.bodies) - 1]))) as model:
        assert ask(model.address, tmp_path, "How?", attempts=3) == [3]
    assert len({body["seed"] for body in model.bodies}) == 3
    message = {"role": "assistant", "content": None, "refusal": "I can not help with that."}
    refusal = {"index": 0, "finish_reason": "content_filter", "message": message}
    with serving(Model(lambda body, before: completion("") | {"choices": [refusal]})) as model:
        (rejected,) = ask(model.address, tmp_path, "Why?", attempts=2)
    assert rejected.answer == "I can not help with that." and len(model.bodies) == 2
    assert str(rejected) == "step: the answer contains no JSON object"


def test_a_server_without_structured_answers_is_asked_without(tmp_path):
    def plain(body, before):
        return 400 if "response_format" in body else completion('Sure: {"sentence": "3"}!')

    with serving(Model(plain)) as model:
        assert ask(model.address, tmp_path, "How?") == [3]


FAULTS = {
    "busy": (500, "Error code: 500"),
    "refused": (400, "a fault"),
    "html": ("<html>Hotel</html>", "is not a chat completion"),
    "nested": ("[" * 100_000, "is not a chat completion"),
    "choices": (completion("") | {"choices": [5]}, "is not a chat completion"),
    "no choices": (completion("") | {"choices": None}, "is not a chat completion"),
    "tokens": (right() | {"usage": {"prompt_tokens": "x"}}, "is not a chat completion"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_request_without_an_answer_rejects_its_story(name, tmp_path):
    """Many in a row end the run, unless others are answered."""
    answer, problem = FAULTS[name]

    def picky(body, before):
        return answer if prompt_of(body).startswith("bad") else right()

    bad = [f"bad {number}" for number in range(4)]
    with serving(Model(picky)) as model:
        found = ask(model.address, tmp_path, *bad[:2], "good", *bad, "good")
    assert [type(one) for one in found[:3]] == [Rejected, Rejected, int]
    assert problem in str(found[0])
    is_refused = name == "refused"
    kinds = [Rejected] * 4 if is_refused else [Rejected, Rejected, ServerError, ServerError]
    assert [type(one) for one in found[3:7]] == kinds
    assert is_refused or "no more are sent after 3 without" in str(found[5])


@pytest.mark.parametrize("status", [401, 403, 404, None])
def test_a_server_that_can_not_be_used_ends_the_run(status, tmp_path):
    """The answers under way are logged, since they are paid for."""

    def expires(body, before):
        if prompt_of(body) == "last":
            return status
        time.sleep(0.2)
        return right()

    with serving(Model(expires)) as model:
        address = model.address if status else "http://127.0.0.1:9/v1"
        server = Server(address, "tiny", concurrency=4, retries=0)
        refused = pytest.raises(ServerError, match="check that the server is running, its address")
        with refused, Chat(server, tmp_path / "a") as chat:
            chat.ask_each(["1", "2", "3", "last", "5", "6"], lambda one: chat.ask(question(one)))
    assert len(read_rows(tmp_path / "a")) == (3 if status else 0)
    assert len(model.bodies) == (4 if status else 0)


@pytest.mark.parametrize(
    ("address", "variable", "expected"),
    [
        ("https://api.openai.com/v1", None, KEY),
        ("https://openai.com.example.org/v1", None, "none"),
        ("https://example.org/v1", None, "none"),
        ("https://example.org/v1", "MINE", "my-key"),
        ("https://example.org/v1", "NOT_SET", "NOT_SET of the API key is not set"),
        ("https://example.org/v1", "BROKEN", "^the value of BROKEN is no API key: it has other"),
    ],
)
def test_the_key_is_sent_only_where_it_belongs(address, variable, expected, monkeypatch):
    monkeypatch.setenv("MINE", "my-key")
    monkeypatch.setenv("BROKEN", "my\nkey")
    server = Server(address, "tiny", key_variable=variable)
    if "API key" in expected:
        with pytest.raises(ValueError, match=expected):
            _ = server.key
    else:
        assert server.key == expected


def test_errors_before_requests(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"\['stream'\] are set by the package"):
        Server("http://x/v1", "tiny", request={"stream": True})
    for line in ('{"key": 1}', "[]", "no"):
        (tmp_path / "a").write_text(f"{line}\n")
        with pytest.raises(ValueError, match="line 1 is not a"):
            ask("http://x/v1", tmp_path)
        assert (tmp_path / "a").read_text() == f"{line}\n"
    monkeypatch.setattr(extras, "version", lambda name: "0")
    with pytest.raises(ImportError, match=r"narrative_twins\[making\]'.*openai must be >="):
        ask("http://x/v1", tmp_path)

"""The command `make twins`: written rows, rejected stories, facts, and that no answer is paid for
twice."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from narrative_twins import DatasetFacts
from narrative_twins.data import load_story_twins, load_window_twins
from narrative_twins.hub.facts import read_facts
from narrative_twins.making.twins import COLUMNS

from support.chat_server import Model, completion, model_answer, prompt_of, rng, sentence, serving
from support.command import run
from support.processes import LIMIT
from support.rows import read_rows, write_rows


def stories(count: int, sentences: int = 5) -> list[list[str]]:
    generator = rng("stories")
    rest = range(sentences - 1)
    return [
        [f"Hero{number} {sentence(generator)}", *(sentence(generator) for _ in rest)]
        for number in range(count)
    ]


@pytest.fixture
def make(tmp_path):
    """Runs the command on stories or a file, with options, to `o.jsonl`."""

    def call(model: Model, source, *more: object, out: str = "o.jsonl"):
        if not isinstance(source, str):
            source = str(write_rows(tmp_path / "s.jsonl", source))
        options = ["--out", out, "--server", model.address, "--model", "tiny", "--quiet"]
        return run("make", "twins", source, *options, *more, cwd=tmp_path)

    return call


def facts_of(folder: Path) -> DatasetFacts:
    return read_facts(DatasetFacts, folder / "o.facts.yaml")


def test_rows_load(make, tmp_path, monkeypatch):
    """The key of the server is in no file."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    texts = stories(6)
    rows = [{"id": f"S-{n}", "title": "dropped", "text": " ".join(s)} for n, s in enumerate(texts)]
    fields = json.dumps({"temperature": 0.2, "top_p": 0.9})
    with serving(Model()) as model:
        done = make(model, rows, "--request", fields)
    # Five questions for each story, with 100 prompt tokens and 10 answer tokens each.
    usage = "6 rows; 0 stories rejected; new answers: 30 (3,000 tokens in, 300 out)"
    assert done.code == 0 and usage in done.err
    # The folder can be loaded, since the other files in it are not taken for data.
    (tmp_path / "s.jsonl").unlink()
    loaded = load_story_twins(tmp_path, "train", cache_dir=str(tmp_path / "cache"))
    assert loaded["id"][:] == [f"S-{number}" for number in range(6)]
    for row, text in zip(read_rows(tmp_path / "o.jsonl"), texts, strict=True):
        assert sorted(row) == ["id", "negative", "negative_twin", "story", "twin"]
        hero = text[0].split()[0]
        assert all(line.startswith(f"{hero} ") for line in (*row["twin"], *row["negative_twin"]))
        assert row["story"] == text
        assert row["negative"][:-1] == text[:-1] and row["negative"][-1] != text[-1]
    facts = facts_of(tmp_path)
    assert "Of 6 stories 6 have a row and 0 were rejected." in facts.description
    assert "- language model: tiny\n" in facts.source and "overlap of a twin" in facts.source
    assert "- fields of a request: temperature 0.2, seed 0, top_p 0.9\n" in facts.source
    assert not (tmp_path / "o.jsonl.rejects").exists()
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert model.keys[0].endswith("-0123456789") and not any(b"-secret-" in text for text in files)


on_posix = pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C can't be sent to one process")


def press(times: int, model: Model, after: int) -> Thread:
    """Press Ctrl-C a number of times, after the model got a number of requests."""

    def run():
        while len(model.bodies) < after:
            time.sleep(0.01)
        for _ in range(times):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

    thread = Thread(target=run, daemon=True)
    thread.start()
    return thread


@on_posix
def test_interruption_loses_no_answers(make, tmp_path):
    with serving(Model(slow=0.2)) as model:
        pressing = press(1, model, after=4)
        done = make(model, stories(3), "--concurrency=3")
        pressing.join()
        assert done.code == 130 and "waiting for answers under way" in done.err
        assert "interrupted; the answers so far are in o.jsonl.answers" in done.err
        assert not (tmp_path / "o.jsonl").exists()
        assert len(read_rows(tmp_path / "o.jsonl.answers")) == len(model.bodies) < 15
        model.slow = 0
        assert make(model, stories(3)).code == 0
        assert set(model.asked.values()) == {1} and len(model.asked) == 15
        model.slow, _ = LIMIT, press(2, model, after=18)
        done = make(model, stories(3), "--seed=1")
    assert done.code == 130 and "again to drop them" in done.err


def test_stories_without_valid_answers_are_rejected_with_the_reason(make, tmp_path):
    def stubborn(body, before):
        prompt = prompt_of(body)
        if "Hero1 " in prompt and "Retell" in prompt:
            return completion(json.dumps({"sentences": ["Only one."]}))
        if "Hero2 " in prompt and "Write another" in prompt:
            return completion(json.dumps({"sentences": ["Nothing", "of", "this", "is", "alike"]}))
        if "Hero3 " in prompt:
            return 400
        if "Hero5 " in prompt and "Retell" in prompt:
            return completion(json.dumps({"sentences": texts[5]}))
        return completion(model_answer(prompt, body["seed"]))

    texts, out = stories(6), tmp_path / "o.jsonl"
    with serving(Model(stubborn)) as model:
        done = make(model, texts, "--attempts=2")
        assert done.code == 1 and "2 rows; 4 stories rejected" in done.err
        assert [row["story"] for row in read_rows(out)] == [texts[0], texts[4]]
        rejects = read_rows(tmp_path / "o.jsonl.rejects")
        found = [(texts.index(one["story"]), one["step"], one["reason"][:20]) for one in rejects]
        assert found == [
            (1, "twin, retold", "sentences: List shou"),
            (2, "negative", "the word overlap wit"),
            (3, "twin, expanded", "the request failed: "),
            (5, "twin, retold", "sentence 1 is copied"),
        ]
        description = facts_of(tmp_path).description
        assert "Of 6 stories 2 have a row and 4 were rejected (2 at " in description
        # With another threshold, logged answers that are valid now are used.
        rejected = str(write_rows(tmp_path / "rejected.jsonl", rejects))
        model.answer, before = Model().answer, dict(model.asked)
        assert make(model, texts, "--attempts=3", "--distractor-overlap=0").code == 0
        assert not (tmp_path / "o.jsonl.rejects").exists()
        assert [row["story"] for row in read_rows(out)] == texts
        again = {asked[0] for asked, count in before.items() if count < model.asked[asked]}
        assert all("Hero3 " in prompt for prompt in again), "only the refused request is repeated"
        # The rejected stories are the input of another run.
        assert make(model, rejected, out="more.jsonl").code == 0
    more = read_rows(tmp_path / "more.jsonl")
    assert [row["story"] for row in more] == [reject["story"] for reject in rejects]
    assert all(set(row) == {"story", *COLUMNS} for row in more)


def test_synopses(make, tmp_path):
    """Their twins and other columns are kept."""
    (story,) = stories(1, 10)
    row = {"id": "a", "note": 1, "story": story, "twin": ["a"]}
    row["alignment"] = [[n, 0] for n in range(10)]
    with serving(Model()) as model:
        assert make(model, [row], "--recipe=synopses").code == 0
    (made,) = read_rows(tmp_path / "o.jsonl")
    assert (made["id"], made["note"], made["twin"]) == ("a", 1, ["a"])
    assert [len(section) for section in made["negative"]] == [2] * 5
    out, cache = str(tmp_path / "o.jsonl"), str(tmp_path / "cache")
    (loaded,) = load_window_twins(out, "train", min_window=1, cache_dir=cache)
    assert loaded["negative"] == made["negative"]


def test_stories_that_are_not_asked_about(make, tmp_path):
    (story,) = stories(1, 10)
    rows = [{"story": story, "twin": ["a"], "alignment": [[0, 0]]}]
    rows.append({"story": [story[:5], story[5:]]})
    with serving(Model()) as model:
        done = make(model, rows, "--recipe=synopses")
        assert done.code == 1 and "no sentence of 'twin' is in window 1" in done.err
        assert "s.jsonl, line 2 (row 1): the synopsis has 2 windows" in done.err
        assert make(model, stories(1, 41)).code == 1
    assert not model.bodies
    (long,) = read_rows(tmp_path / "o.jsonl.rejects")
    assert long["reason"] == "41 sentences; the recipe for short stories takes at most 40"


def test_errors_before_requests(make, tmp_path):
    with serving(Model()) as model:
        for options, code, problem in (
            (["--columns", "twins"], 2, "'twins' is not one of 'twin', 'negative'"),
            (["--request", "[1]"], 2, "not a JSON object"),
            (["--key-variable", "NOT_SET"], 1, "NOT_SET of the API key is not set"),
            (["--prompts", "nowhere"], 1, "nowhere has the prompts []"),
        ):
            done = make(model, stories(1), *options)
            assert done.code == code and problem in done.err
        done = make(model, stories(1), out="-")
        assert done.code == 2 and "name a file that ends in .jsonl" in done.err
        # The rejected stories of the earlier run would be overwritten.
        done = make(model, str(write_rows(tmp_path / "o.jsonl.rejects", stories(1))))
    assert done.code == 2 and "o.jsonl.rejects is read" in done.err and not model.bodies


def test_server_that_can_not_be_used_loses_no_rows(make, tmp_path):
    with serving(Model()) as model:
        assert make(model, stories(2)).code == 0
        before = (tmp_path / "o.jsonl").read_bytes()
        model.answer = lambda body, before: "<html>Welcome to the hotel</html>"
        done = make(model, stories(5), "--concurrency=3")
    assert done.code == 1 and "not a chat completion; no more are sent after 3" in done.err
    assert "resume with the same command" in done.err
    assert (tmp_path / "o.jsonl").read_bytes() == before


def test_prompts_and_columns_of_the_user(make, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "distract.txt").write_text("Sing of\n\n{{story}}", encoding="utf-8")
    with serving(Model()) as model:
        more = ("--columns", "negative, twin", "--prompts", tmp_path / "mine")
        assert make(model, stories(1) * 2, *more).code == 0
    assert len(model.bodies) == 3, "equal stories share their requests"
    assert prompt_of(model.bodies[2]) == f"Sing of\n\n{json.dumps(stories(1)[0], indent=1)}"
    one, other = read_rows(tmp_path / "o.jsonl")
    assert one == other and list(one) == ["story", "twin", "negative"]
    assert str(tmp_path) not in facts_of(tmp_path).source


def test_edited_facts_are_kept(make, tmp_path):
    path = tmp_path / "o.facts.yaml"
    with serving(Model()) as model:
        assert make(model, stories(1)).code == 0
        path.write_text(path.read_text().replace("license: null", "license: cc0-1.0"))
        assert make(model, stories(3), "--seed=1").code == 0
        facts = facts_of(tmp_path)
        assert facts.license == "cc0-1.0" and "Of 3 stories 3 have a row" in facts.description
        assert "seed 1" in facts.source
        path.write_text("nonsense: 1")
        before = len(model.bodies)
        assert make(model, stories(3), "--seed=2").code == 1
        assert len(model.bodies) == before, "raised before a request"

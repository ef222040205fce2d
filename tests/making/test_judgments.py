"""Judgments by a language model: rows with votes that load and train, rejected stories, no answer
paid for twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from narrative_twins import (
    DatasetFacts,
    JudgedStoriesCollator,
    SalienceLoss,
    StoryEncoder,
    StoryError,
)
from narrative_twins.commands.cli import main
from narrative_twins.data import load_story_salience
from narrative_twins.hub.facts import read_facts
from narrative_twins.llm.server import Server
from narrative_twins.making.judgments import make_judgments
from narrative_twins.making.made import facts_path

from support.chat_server import Model, completion, model_answer, prompt_of, serving
from support.twins_batches import model_of

LONG = [f"In {year} the mill burned." for year in range(1900, 1912)]
STORIES = [
    {"id": "A", "text": "Ada lost the ring. She cried all night. A fox found it."},
    ["He ran.", "She ran.", "They met."],
    {"id": 7, "sentences": LONG, "windows": [2, 3, 3, 2, 2]},
    {"id": "B", "sentences": ["One.", "Two."]},
]
STYLES = ("choose", "shares")


def write(path: Path, rows: list) -> str:
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    return str(path)


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def command(source: str, out: Path, model: Model, *more: str) -> list[str]:
    options = ["--out", str(out), "--server", model.address, "--model", "tiny", "--quiet"]
    return ["make", "judgments", source, *options, *more]


def judge(model: Model, path: Path, stories=STORIES, **options):
    return make_judgments(stories, Server(model.address, "tiny"), path, **options)


def votes_given(model: Model, sentences: list[str], spans: list[list[int]]) -> list[int]:
    """The votes for a story, added up from the answers to all requests about it."""
    votes = [0] * len(sentences)
    for body in model.bodies:
        if f"1. {sentences[0]}\n" in prompt_of(body):
            answer = json.loads(model_answer(prompt_of(body), body["seed"]))
            if "votes" in answer:
                first = int(prompt_of(body).partition("vote on the sentences ")[2].split()[0]) - 1
                for index, number in enumerate(answer["votes"], start=first):
                    votes[index] += number
            else:
                votes[answer["most_important"] - 1] += 1
    return votes


@pytest.mark.parametrize("style", STYLES)
def test_rows_have_the_votes_of_the_model(style, tmp_path):
    out = tmp_path / "votes.jsonl"
    with serving(Model()) as model:
        made = judge(model, out, style=style)
    assert len(model.bodies) == (80 if style == "choose" else 8)
    rows = read(out)
    assert rows == made.rows and made.rejects == []
    assert [list(row) for row in rows] == [
        ["id", "story", "votes"],
        ["story", "votes"],
        ["id", "story", "windows", "votes"],
        ["id", "story", "votes"],
    ]
    assert [row.get("id") for row in rows] == ["A", None, 7, "B"]
    assert rows[0]["story"] == ["Ada lost the ring.", "She cried all night.", "A fox found it."]
    for row in rows:
        spans = row.get("windows", [[0, len(row["story"])]])
        assert row["votes"] == votes_given(model, row["story"], spans)
        assert [sum(row["votes"][lo:hi]) for lo, hi in spans] == [10] * len(spans)


@pytest.mark.parametrize("style", STYLES)
def test_rows_load_and_train(style, tmp_path):
    out = tmp_path / "votes.jsonl"
    with serving(Model()) as model:
        judge(model, out, style=style)
    rows = load_story_salience(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    made = read(out)
    assert rows["counts"][:] == [row["votes"] for row in made]
    assert rows["windows"][:] == [None, None, [[0, 2], [2, 5], [5, 8], [8, 10], [10, 12]], None]
    encoder = model_of()
    operations = ["summarization", "deletion"]
    batch = JudgedStoriesCollator(
        StoryEncoder.from_sentence_transformer(encoder).tokenizer, operations
    )(list(rows))
    judged = batch["texts_judged"]
    expected = [
        row["votes"][lo:hi]
        for row in made
        for lo, hi in row.get("windows", [[0, len(row["story"])]])
    ]
    assert [window.labels for window in judged] == expected
    features = {name.removeprefix("texts_"): value for name, value in batch.items()}
    loss = SalienceLoss(encoder, operations)([features])
    loss.backward()
    assert loss.item() > 0


def test_a_long_story_in_a_single_window_is_read_in_a_single_window(tmp_path):
    out = tmp_path / "votes.jsonl"
    with serving(Model()) as model:
        judge(model, out, [LONG], windows=1, style="shares")
    assert len(model.bodies) == 1
    (row,) = load_story_salience(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert row["windows"] == [[0, 12]] and sum(row["counts"]) == 10
    tokens = StoryEncoder.from_sentence_transformer(model_of()).tokenizer
    assert len(JudgedStoriesCollator(tokens, "summarization")([row])["texts_judged"]) == 1


@pytest.mark.parametrize("style", STYLES)
def test_facts_and_card_name_the_model_as_the_judge(style, tmp_path):
    with serving(Model()) as model:
        made = make_judgments(
            STORIES,
            Server(model.address, "tiny", temperature=0.5),
            tmp_path / "votes.jsonl",
            style=style,
            language="de",
        )
    facts = read_facts(DatasetFacts, facts_path(str(tmp_path / "votes.jsonl")))
    assert facts == made.facts and facts.language == "de"
    assert "by the language model tiny, not by people" in facts.description
    assert "temperature 0.5" in facts.description and "are not human labels" in facts.limits
    how = (
        "10 times about each window"
        if style == "choose"
        else "once about each window how 10 readers would vote"
    )
    assert (
        how in facts.description
        and "Of 4 stories 4 have a row and 0 were rejected." in facts.description
    )
    assert f"- style: {style}\n" in facts.source and "- language model: tiny\n" in facts.source
    assert f"- prompts: {style} " in facts.source
    card = (tmp_path / "votes.card.md").read_text()
    assert facts.description in card and facts.source in card


def test_stories_without_valid_answers_are_rejected_with_the_reason(tmp_path, capsys):
    def stubborn(body, before):
        if "Ada" in prompt_of(body):
            return completion('{"summary": "A fox found it.", "votes": [5, 4, 0]}')
        if "He ran" in prompt_of(body):
            return 400, {}
        return completion(model_answer(prompt_of(body), body["seed"]))

    source, out = write(tmp_path / "s.jsonl", STORIES), tmp_path / "votes.jsonl"
    with serving(Model(stubborn)) as model:
        assert main(command(source, out, model, "--style", "shares", "--attempts", "2")) == 1
        assert [row["id"] for row in read(out)] == [7, "B"]
        rejects = read(tmp_path / "votes.jsonl.rejects")
        assert [(reject["step"], reject["attempts"]) for reject in rejects] == [
            ("shares, sentences 1 to 3", 2),
            ("shares, sentences 1 to 3", 1),
        ]
        assert (
            rejects[0]["id"] == "A"
            and rejects[0]["answer"] == '{"summary": "A fox found it.", "votes": [5, 4, 0]}'
        )
        assert rejects[0]["reason"] == "the votes add up to 9 instead of 10"
        assert rejects[1]["reason"].startswith("the server answered 400: ")
        printed = capsys.readouterr().err
        assert (
            "2 rows; 2 stories rejected" in printed
            and "the votes add up to 9 instead of 10" in printed
        )
        description = yaml.safe_load((tmp_path / "votes.facts.yaml").read_text())["description"]
        assert "2 were rejected (2 at shares, sentences 1 to 3)" in description
        # The rejected stories are the input of another run, and none is left if all have a row.
        model.answer = Model().answer
        assert (
            main(command(f"{out}.rejects", tmp_path / "more.jsonl", model, "--style", "shares"))
            == 0
        )
        assert [row["story"] for row in read(tmp_path / "more.jsonl")] == [
            reject["story"] for reject in rejects
        ]
        assert main(command(source, out, model, "--style", "shares", "--attempts", "3")) == 0
    assert len(read(out)) == 4 and not (tmp_path / "votes.jsonl.rejects").exists()


def test_equal_stories_and_windows_share_their_requests(tmp_path):
    stories = [LONG, {"id": 1, "sentences": LONG}, {"sentences": LONG, "windows": [6, 2, 4]}]
    with serving(Model()) as model:
        made = judge(model, tmp_path / "v.jsonl", stories, style="shares", windows=2)
    # Windows of sentences 1 to 6, 7 to 12, 7 to 8 and 9 to 12.
    assert len(model.bodies) == 4 and set(Counter(map(prompt_of, model.bodies)).values()) == {1}
    assert made.rows[0]["votes"] == made.rows[1]["votes"]
    assert made.rows[2]["votes"][:6] == made.rows[0]["votes"][:6]


def test_command_writes_what_the_function_writes(tmp_path, capsys):
    source = write(tmp_path / "s.jsonl", STORIES)
    with serving(Model()) as model:
        assert (
            main(command(source, tmp_path / "a.jsonl", model, "--windows", "2", "--price-in", "2"))
            == 0
        )
        judge(model, tmp_path / "b.jsonl", windows=2)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    # 5 windows of the story that has its own, 2 of each of the others, ten samples.
    assert (
        "4 rows; 110 answers in this run, 11,000 tokens in, 1,100 out, cost 0.0220"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("answered", [1, 5])
def test_dry_run_counts_the_requests_of_a_resumed_run(answered, tmp_path, capsys):
    out, source = tmp_path / "o.jsonl", write(tmp_path / "s.jsonl", [*STORIES, STORIES[0]])
    with serving(Model()) as model:
        assert main(command(source, out, model, "--style", "shares")) == 0
        lines = (tmp_path / "o.jsonl.answers").read_text().splitlines(keepends=True)
        (tmp_path / "o.jsonl.answers").write_text("".join(lines[:answered]))
        before = len(model.bodies)
        assert (
            main(
                command(source, out, model, "--style", "shares", "--dry-run", "--price-out", "1000")
            )
            == 0
        )
        assert len(model.bodies) == before
        printed = capsys.readouterr().out
        assert main(command(source, out, model, "--style", "shares")) == 0
        asked = len(model.bodies) - before
    assert asked == 8 - answered
    assert (
        f"5 stories, {answered} saved answers; {asked} questions to ask, if every answer is valid"
        in printed
    )
    assert (
        printed.count("--- ") == 1 and "1. Ada lost the ring.\n2. She cried all night." in printed
    )
    assert "cost " in printed


def test_invalid_stories_are_reported(tmp_path, capsys):
    source = tmp_path / "s.jsonl"
    source.write_text('{"story": []}\nnot JSON\n' + json.dumps(STORIES[1]) + "\n")
    with serving(Model()) as model:
        assert main(command(str(source), tmp_path / "o.jsonl", model)) == 1
        with pytest.raises(StoryError, match="story 2: "):
            judge(model, tmp_path / "p.jsonl", ["Fine.", ""])
    printed = capsys.readouterr().err
    assert (
        f"{source}, line 1: the story is empty" in printed
        and f"{source}, line 2: is not valid JSON" in printed
    )
    assert len(read(tmp_path / "o.jsonl")) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--style", "rate"], "'rate' is not one of"),
        (["--style", "shares", "--samples", "3"], "--samples is for --style choose"),
        (["--samples", "0"], "not in the range"),
        (["--windows", "x"], "neither auto, a count such as 5, nor sizes"),
    ],
)
def test_invalid_options(options, problem, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(command("s.jsonl", tmp_path / "o.jsonl", Model(), *options))
    assert caught.value.code == 2 and problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "problem"), [(["--key-variable", "NOT_SET"], "NOT_SET is not set")]
)
def test_errors_before_requests(options, problem, tmp_path, capsys):
    source = write(tmp_path / "s.jsonl", STORIES)
    with serving(Model()) as model:
        assert main(command(source, tmp_path / "o.jsonl", model, *options)) == 1
        with pytest.raises(ValueError, match="must be 'choose' or 'shares'"):
            judge(model, tmp_path / "o.jsonl", style="rate")
        assert not model.bodies
    assert problem in capsys.readouterr().err


def test_prompts_of_the_user(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "shares.txt").write_text(
        "{{story}}\nGive the number of votes for each of the sentences {{first}} to {{last}}, which"
        " add up to 10: votes"
    )
    source = write(tmp_path / "s.jsonl", STORIES)
    with serving(Model()) as model:
        more = "--style", "shares", "--prompts", str(tmp_path / "mine")
        assert main(command(source, tmp_path / "o.jsonl", model, *more)) == 0
        assert all("Ten readers" not in prompt_of(body) for body in model.bodies)
    source = yaml.safe_load((tmp_path / "o.facts.yaml").read_text())["source"]
    assert "- prompts of the user: shares" in source and str(tmp_path) not in source

"""Judgments by a language model: rows with votes, which load and are evaluated. Rejected stories
and answers in the log are in tests/making/test_twins.py."""

import pytest

from narrative_twins import DatasetFacts
from narrative_twins.data import load_story_salience
from narrative_twins.evaluation.metrics import spearman
from narrative_twins.hub.facts import read_facts
from narrative_twins.making.judgments import make_judgments
from narrative_twins.prompting import Server, prompted_salience

from support.chat_server import Model, serving
from support.command import run
from support.rows import read_rows, write_rows

LONG = [f"In {year} the mill burned." for year in range(1900, 1912)]
STORIES = [
    {"id": "A", "text": "Ada lost the ring. She cried all night. A fox found it."},
    ["He ran.", "She ran.", "They met."],
    {"id": 7, "sentences": LONG, "windows": [2, 3, 3, 2, 2]},
    {"id": "B", "sentences": ["One.", "Two."]},
]


def test_votes_are_compared_with_the_labels_of_people(tmp_path):
    """By the two commands of docs/evaluation.md, from one file of labels."""
    story = ["He ran.", "She ran.", "They met.", "It rained."]
    write_rows(tmp_path / "labels.jsonl", [{"id": "A", "story": story, "choices": [3, 3, 1]}])
    with serving(Model()) as model:
        options = ["--server", model.address, "--model", "tiny", "--style=shares", "--windows=2"]
        command = ["make", "judgments", "labels.jsonl", "--out", "votes.jsonl", "--quiet"]
        done = run(*command, *options, cwd=tmp_path)
    usage = "1 row; 0 stories rejected; new answers: 2 (200 tokens in, 20 out)"
    assert done.code == 0 and usage in done.err, "an answer for each window"
    options = ["--results", "gpt=votes.jsonl", "--baselines", "trail"]
    table = run("evaluate", "labels.jsonl", *options, cwd=tmp_path).out
    (votes,) = (row["votes"] for row in read_rows(tmp_path / "votes.jsonl"))
    (line,) = (line for line in table.splitlines() if line.startswith("| gpt "))
    assert f"{spearman(votes, [1, 0, 2, 0]):.3f}" in line


@pytest.mark.parametrize(
    ("style", "requests", "how"),
    [
        ("choose", 80, "10 times about each window"),
        ("shares", 8, "once about each window how 10 readers would vote"),
    ],
)
def test_votes_of_the_model_are_rows_that_load(style, requests, how, tmp_path):
    """Their facts name the model as the judge."""
    out = tmp_path / "votes.jsonl"
    with serving(Model()) as model:
        server = Server(model.address, "tiny", temperature=0.5)
        made = make_judgments(STORIES, server, str(out), style=style, language="de")
        assert len(model.bodies) == requests
        # The model answers alike if it is asked alike.
        scored = prompted_salience(STORIES, server, tmp_path / "answers", styles=style)
        assert [[*result.scores.values()][0] for result in scored] == [
            one["votes"] for one in made.rows
        ]
    rows = read_rows(out)
    assert rows == made.rows and made.rejects == []
    assert [row.get("id") for row in rows] == ["A", None, 7, "B"]
    assert rows[0]["story"] == ["Ada lost the ring.", "She cried all night.", "A fox found it."]
    spans = [row.get("windows", [[0, len(row["story"])]]) for row in rows]
    for row, windows in zip(rows, spans, strict=True):
        assert [sum(row["votes"][lo:hi]) for lo, hi in windows] == [10] * len(windows)

    loaded = load_story_salience(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded["counts"][:] == [row["votes"] for row in rows]
    assert loaded["windows"][:] == [None, None, spans[2], None]
    facts = read_facts(DatasetFacts, tmp_path / "votes.facts.yaml")
    assert facts.language == "de" and "are not human labels" in facts.limits
    for words in ("by the language model tiny, not by people", how, "4 have a row and 0 were rej"):
        assert words in facts.description
    for words in (f"- style: {style}\n", f"- prompts: {style} ", "temperature 0.5"):
        assert words in facts.source


def test_a_long_story_in_a_single_window_is_read_in_a_single_window(tmp_path):
    out = tmp_path / "votes.jsonl"
    with serving(Model()) as model:
        server = Server(model.address, "tiny")
        make_judgments([LONG], server, str(out), windows=1, style="shares")
    assert len(model.bodies) == 1
    (row,) = load_story_salience(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert row["windows"] == [[0, 12]] and sum(row["counts"]) == 10


def test_invalid_styles(tmp_path):
    """What the command refuses, tests/making/test_twins.py tests for both."""
    with pytest.raises(ValueError, match="use 'choose' or 'shares'"):
        make_judgments([LONG], Server("http://x/v1", "m"), str(tmp_path / "p"), style="rate")

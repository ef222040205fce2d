"""The examples on small files of the same format."""

from __future__ import annotations

import json
import re

from scipy.stats import spearmanr

from support.chat_server import Model, model_answer, prompt_of, serving
from support.examples import EXAMPLES, run
from support.processes import run_python


def test_score_rocstories(tmp_path, bert_folder):
    file = tmp_path / "roc.json"
    five = ["Nadia ran.", "It rained.", "The mill burned down.", "Nobody knew.", "I was there."]
    rows = {
        "a": {"sentences": five, "most_important": [3, 3, 5]},
        "b": {"story": five[::-1], "most_important": ["1", "2"]},
        "c": {"sentences": five, "most_important": [1, 2, 3, 4, 5]},
    }
    file.write_text(json.dumps(rows))
    out = run("score_rocstories.py", file, "--model", bert_folder)
    assert "3 stories" in out
    rows = re.findall(r"^(\w+) +(-?\d\.\d{3}) \((\d) of 3\) +(\d\.\d{3}) \((\d) of 3\)$", out, re.M)
    assert [row[0] for row in rows] == ["deletion", "shifting", "disruption", "summarization"]
    assert {(row[2], row[4]) for row in rows} == {("2", "2")}, "agreement is undefined if all labels are equal"


def test_score_rocstories_with_a_language_model(tmp_path, bert_folder):
    """The agreement of the model's answers is computed again here."""
    file = tmp_path / "roc.json"
    stories = [["Nadia ran.", "It rained.", "The mill burned."], ["Ada sang.", "Nobody came.", "She laughed."]]
    choices = [[3, 3, 1], [2, 2, 2]]
    pairs = zip(stories, choices, strict=True)
    file.write_text(json.dumps({str(n): {"sentences": s, "most_important": c} for n, (s, c) in enumerate(pairs)}))
    with serving(Model()) as model:
        more = ("--server", model.address, "--language-model", "tiny", "--answers", tmp_path / "answers")
        out = run("score_rocstories.py", file, "--model", bert_folder, *more)
        assert len(model.bodies) == 22
        assert run("score_rocstories.py", file, "--model", bert_folder, *more) == out and len(model.bodies) == 22
        rated = {
            prompt_of(body): list(json.loads(model_answer(prompt_of(body), body["seed"])).values())
            for body in model.bodies
            if '{"sentence_1"' in prompt_of(body)
        }
    expected = []
    for story, votes in zip(stories, choices, strict=True):
        (scores,) = [scores for prompt, scores in rated.items() if story[0] in prompt]
        expected.append(spearmanr(scores, [votes.count(place) for place in (1, 2, 3)])[0])
    (row,) = re.findall(r"^prompted_rating +(-?\d\.\d{3}) \(2 of 2\)", out, re.M)
    assert abs(float(row) - sum(expected) / 2) < 0.001
    assert "2 stories by prompted_choice, tiny" in out


def test_score_tripod(tmp_path, bert_folder):
    file = tmp_path / "tripod.json"
    sentences = [f"In {year} the mill burned down." for year in range(1980, 1996)]
    sentences[3] = " "
    file.write_text(json.dumps({"A film": {"sentences": sentences, "turning_points": [1, 5, 8, 10, 15]}}))
    out = run("score_tripod.py", file, "--model", bert_folder, "--context-tokens", 60)
    assert "1 synopses" in out
    assert "context of 60 tokens\n1 synopses do not fit" in out
    rows = re.findall(r"^(\w+) +" + r"(\d\.\d{3}) +" * 5 + r"mean (\d\.\d{3})$", out, re.M)
    assert [row[0] for row in rows] == ["deletion", "shifting", "disruption", "summarization"]
    for row in rows:
        assert abs(sum(map(float, row[1:6])) / 5 - float(row[6])) < 0.001


def test_score_a_story():
    """In a process of its own, as a user does."""
    out = run_python(EXAMPLES / "score_a_story.py", EXAMPLES / "stories" / "window_cleaner.txt")
    assert out.count("\n") >= 4

"""The examples, as a user runs them, on small files of the same shape."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(script: str, *arguments) -> str:
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
    assert {(row[2], row[4]) for row in rows} == {("2", "2")}, "a story whose labels are all alike has no agreement"


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


def test_score_a_story(bert_folder):
    out = run("score_a_story.py")
    assert out.count("\n") >= 4

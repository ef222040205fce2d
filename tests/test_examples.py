"""The examples on small files of the same format."""

from __future__ import annotations

import csv
import json

import pytest
from scipy.stats import spearmanr

from narrative_twins import SalienceEvaluator, StoryEncoder
from narrative_twins.data import load_story_salience, load_turning_points

from support.chat_server import Model, model_answer, prompt_of, serving
from support.examples import EXAMPLES, run


def cells(out: str) -> dict[str, list[str]]:
    """The cells of each row of a table, by its name."""
    rows = [
        [cell.strip(" *") for cell in line.split("|")[1:-1]]
        for line in out.splitlines()
        if line.startswith("|")
    ]
    return {name: figures for name, *figures in rows[2:]}


def test_score_rocstories(tmp_path, bert_folder):
    file = tmp_path / "roc.json"
    five = ["Nadia ran.", "It rained.", "The mill burned down.", "Nobody knew.", "I was there."]
    rows = {
        "a": {"sentences": five, "most_important": [3, 3, 5]},
        "b": {"story": five[::-1], "most_important": ["1", "2"]},
        "c": {"sentences": five, "most_important": [1, 2, 3, 4, 5]},
    }
    file.write_text(json.dumps(rows))
    out = run("score_rocstories.py", file, "--model", bert_folder, "--pooling", "first")
    assert "roc: 3 stories, 15 sentences" in out
    names = [name.split()[-1] for name in cells(out)]
    assert names == ["them", "deletion", "shifting", "disruption", "summarization"]
    mean = run("score_rocstories.py", file, "--model", bert_folder, "--operations", "deletion")
    assert cells(mean) != cells(out)


def test_score_rocstories_with_a_language_model(tmp_path, bert_folder):
    """The agreement of the model's answers is computed again here."""
    file = tmp_path / "roc.json"
    stories = [
        ["Nadia ran.", "It rained.", "The mill burned."],
        ["Ada sang.", "Nobody came.", "She laughed."],
    ]
    choices = [[3, 3, 1], [2, 2, 2]]
    pairs = zip(stories, choices, strict=True)
    file.write_text(
        json.dumps(
            {str(n): {"sentences": s, "most_important": c} for n, (s, c) in enumerate(pairs)}
        )
    )
    with serving(Model()) as model:
        options = ["--model", bert_folder, "--server", model.address, "--language-model", "tiny"]
        command = ["score_rocstories.py", file, *options, "--answers", tmp_path / "answers"]
        out = run(*command)
        assert len(model.bodies) == 22
        assert run(*command) == out and len(model.bodies) == 22
        rated = {
            prompt_of(body): list(json.loads(model_answer(prompt_of(body), body["seed"])).values())
            for body in model.bodies
            if '{"sentence_1"' in prompt_of(body)
        }
    expected = []
    for story, votes in zip(stories, choices, strict=True):
        (scores,) = [scores for prompt, scores in rated.items() if story[0] in prompt]
        expected.append(spearmanr(scores, [votes.count(place) for place in (1, 2, 3)])[0])
    assert abs(float(cells(out)["tiny prompted_rating"][0]) - sum(expected) / 2) < 0.001
    assert "tiny prompted_choice" in cells(out)


def test_score_tripod(tmp_path, bert_folder):
    """Both files of a folder, with the metrics of validation in training."""
    rows = []
    for name, points in {"train": [1, 5, 8, 10, 15], "test": [2, 3, 4, 12, 14]}.items():
        sentences = [f"In {year} the mill of {name} burned down." for year in range(1980, 1996)]
        rows.append({"sentences": sentences, "turning_points": points})
        (tmp_path / f"{name}.json").write_text(json.dumps({name: rows[-1]}))
    out = run("score_tripod.py", tmp_path, "--model", bert_folder, "--dtype", "float32")
    films = [
        row
        for file in ("train", "test")
        for row in load_turning_points(tmp_path / f"{file}.json", "train")
    ]
    placed = [
        pair for film in films for pair in zip(film["windows"], film["turning_points"], strict=True)
    ]
    outside = sum(not lo <= point < hi for (lo, hi), point in placed)
    assert (
        f"2 stories, 32 sentences, 10 turning points, {outside} of them ({outside / 10:.1%}) left"
        " out because they are outside" in out
    )
    evaluator = SalienceEvaluator(films)
    expected = evaluator(StoryEncoder.from_pretrained(bert_folder, dtype="float32"))
    for name in ("deletion", "shifting", "disruption", "summarization"):
        (found,) = [figures for row, figures in cells(out).items() if row.endswith(name)]
        keys = [*(f"{name}_auc_{number}" for number in range(1, 6)), f"{name}_auc"]
        assert found[:6] == [
            f"{expected[key]:.3f}" if expected[key] == expected[key] else "" for key in keys
        ]
    options = ["--model", bert_folder, "--context-tokens", 60, "--split", "test"]
    out = run("score_tripod.py", tmp_path, *options)
    assert "1 of 1 stories do not fit its context of 60 tokens" in out


def test_score_tripod_with_sentences_of_both_cleanings(tmp_path, bert_folder):
    sentences = [f"In {year} the mill burned down." for year in range(1980, 1990)]
    text = " ".join(f"[STR_SENT] {line} [END_SENT]" for line in [*sentences, "[2]"])
    with open(tmp_path / "synopses.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["movie_name", "synopsis_segmented", *(f"tp{k}" for k in range(1, 6))])
        writer.writerow(["The Mill", text, 1, 3, 5, 7, 9])
    out = run(
        "score_tripod.py",
        tmp_path / "synopses.csv",
        *("--model", bert_folder, "--operations", "summarization"),
        *("--cleaning", "full", "released"),
    )
    assert "full cleaning: 1 stories, 10 sentences" in out
    assert "released cleaning: 1 stories, 11 sentences" in out


def roc_table(path, stories: dict[str, list[str]]) -> str:
    """A table of ROCStories."""
    header = ["storyid", "storytitle", *(f"sentence{number}" for number in range(1, 6))]
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([header, *([key, "Mill", *s] for key, s in stories.items())])
    return str(path)


def told(number: int) -> list[str]:
    return ["It rained.", 'He said, "So what?"', "They burned.", "He left.", f"Day {number}."]


def test_roc_stories(tmp_path, capsys):
    """Stories with labels are recognized by id, or by text if they have another id."""
    first = {f"id-{n}": told(n) for n in range(8)} | {"a": [" Ünter  ran. ", *told(0)[1:]]}
    tables = [
        roc_table(tmp_path / "a.csv", first),
        roc_table(tmp_path / "b.csv", {f"id-{n}": told(n) for n in (1, 8, 9)}),
    ]
    other_case = [sentence.upper().replace(" ", "  ") for sentence in told(5)]
    labels = {"id-3": told(3), "other": other_case}, {"id-9": ["Another text.", "B."]}
    for name, stories in zip(("val.json", "test.json"), labels, strict=True):
        rows = {key: {"story": s, "most_important": ["1"]} for key, s in stories.items()}
        (tmp_path / name).write_text(json.dumps(rows), encoding="utf-8")
    exclude, out = [tmp_path / "val.json", tmp_path / "test.json"], tmp_path / "roc_train.jsonl"
    run("roc_stories.py", *tables, "--exclude", *exclude, "-o", out)
    rows = list(map(json.loads, out.read_text(encoding="utf-8").splitlines()))
    kept = ["id-0", "id-1", "id-2", "id-4", "id-6", "id-7", "a", "id-8"]
    assert [row["id"] for row in rows] == kept
    assert rows[6] == {"id": "a", "title": "Mill", "story": ["Ünter ran.", *told(0)[1:]]}
    printed = capsys.readouterr().err
    assert "8 stories" in printed and "1 with a repeated id" in printed
    assert "2 with the id of" in printed and "1 with the text of a story with labels" in printed
    run("roc_stories.py", *tables, "--exclude", *exclude, "-o", out, "--stories", 3)
    assert len(set(out.read_text(encoding="utf-8").splitlines())) == 3
    for content, problem in (
        ("storyid,story\n1,A.\n", "c.csv: has no column 'sentence1'; pass the tables"),
        (None, "c.csv, row 1, id 'x': 'story': sentence 2 is empty"),
    ):
        roc_table(tmp_path / "c.csv", {"x": ["A.", "B.", "", "D.", "E."]})
        if content:
            (tmp_path / "c.csv").write_text(content, encoding="utf-8")
        with pytest.raises(SystemExit, match=problem):
            run("roc_stories.py", tmp_path / "c.csv", "--exclude", *exclude, "-o", out)


def test_score_a_story():
    out = run("score_a_story.py", EXAMPLES / "stories" / "window_cleaner.txt")
    assert out.count("\n") >= 4


def test_retold_stories(tmp_path):
    """Sentences that other tellings keep have higher labels; all tellings of a story are in one
    half."""
    kept = ["A stranger burned the old mill.", "Nadia crossed the frozen river."]
    own = [[f"Writer {n} adds remark number {n}{m} of his own." for m in "abcdef"] for n in "xyz"]
    rows = [
        {
            "id": f"s{at}",
            "tellings": [{"sentences": [*kept, *others]} for others in own] + [{"sentences": kept}],
        }
        for at in range(6)
    ]
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in [*rows, {"id": "x", "tellings": []}])
    )
    run("retold_stories.py", tmp_path / "rows.jsonl", "--out", tmp_path)
    halves = [
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("looked", "unseen")
    ]
    stories = [{row["id"].partition("-")[0] for row in half} for half in halves]
    assert stories[0] | stories[1] == {f"s{at}" for at in range(6)} and not stories[0] & stories[1]
    found = [row for half in halves for row in half]
    assert len(found) == 6 * 3, "a telling of two sentences is too short to be labelled"
    for row in found:
        assert row["labels"][:2] == [1.0, 1.0] and max(row["labels"][2:]) < 0.8
    assert len(load_story_salience(str(tmp_path / "looked.jsonl"), "train")) == len(halves[0])

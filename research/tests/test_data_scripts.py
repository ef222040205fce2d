"""The scripts that prepare data, on small files of the same format."""

import csv
import json
from pathlib import Path

import pytest

from narrative_twins.data import load_story_salience

from support.examples import run
from support.rows import read_rows, write_rows

RESEARCH = Path(__file__).parents[1]
ROC_STORIES = RESEARCH / "paper" / "roc_stories.py"
RETOLD_STORIES = RESEARCH / "encoders" / "retold_stories.py"


def roc_table(path, stories: dict[str, list[str]]) -> str:
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
    run(ROC_STORIES, *tables, "--exclude", *exclude, "-o", out)
    rows = read_rows(out)
    kept = ["id-0", "id-1", "id-2", "id-4", "id-6", "id-7", "a", "id-8"]
    assert [row["id"] for row in rows] == kept
    assert rows[6] == {"id": "a", "title": "Mill", "story": ["Ünter ran.", *told(0)[1:]]}
    printed = capsys.readouterr().err
    assert "8 stories" in printed and "1 with a repeated id" in printed
    assert "2 with the id of" in printed and "1 with the text of a story with labels" in printed
    run(ROC_STORIES, *tables, "--exclude", *exclude, "-o", out, "--stories", 3)
    assert len({row["id"] for row in read_rows(out)}) == 3
    (tmp_path / "c.csv").write_text("storyid,story\n1,A.\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="c.csv: has no column 'sentence1'; pass the tables"):
        run(ROC_STORIES, tmp_path / "c.csv", "--exclude", *exclude, "-o", out)


def test_retold_stories(tmp_path):
    """Sentences that other versions keep have higher labels; all versions of a story are in one
    half."""
    kept = ["A stranger burned the old mill.", "Nadia crossed the frozen river."]
    own = [[f"Writer {n} adds remark number {n}{m} of his own." for m in "abcdef"] for n in "xyz"]
    versions = [{"sentences": [*kept, *others]} for others in own] + [{"sentences": kept}]
    rows = [{"id": f"s{at}", "tellings": versions} for at in range(6)]
    write_rows(tmp_path / "rows.jsonl", [*rows, {"id": "x", "tellings": []}])
    run(RETOLD_STORIES, tmp_path / "rows.jsonl", "--out", tmp_path)
    halves = [read_rows(tmp_path / f"{name}.jsonl") for name in ("looked", "unseen")]
    stories = [{row["id"].partition("-")[0] for row in half} for half in halves]
    assert stories[0] | stories[1] == {f"s{at}" for at in range(6)} and not stories[0] & stories[1]
    written = [row for half in halves for row in half]
    assert len(written) == 6 * 3, "a version of two sentences is too short to be labelled"
    for row in written:
        assert row["labels"][:2] == [1.0, 1.0] and max(row["labels"][2:]) < 0.8
    assert len(load_story_salience(str(tmp_path / "looked.jsonl"), "train")) == len(halves[0])


def test_stories_are_labelled_by_what_summaries_keep(tmp_path):
    """That the labels can be compared with choices of readers is in test_paper_page.py."""
    story = ["Nadia crossed the frozen river.", "It was late.", "A stranger burned the old mill."]
    summaries = ["A stranger burned the old mill.", "The old mill was burned by a stranger."]
    row = {"id": "s", "story": story, "summaries": summaries}
    source = write_rows(tmp_path / "summaries_in.jsonl", [row])
    out = run(RETOLD_STORIES, source, "--out", tmp_path)
    assert "summaries: 1 texts, 3 sentences" in out
    (row,) = read_rows(tmp_path / "summaries.jsonl")
    assert row["labels"][2] > 0.7 and max(row["labels"][:2]) < 0.2

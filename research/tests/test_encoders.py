"""The stages that train the shipped encoders, with a small random encoder, and what measures
them."""

import json
import shutil
import sys

import distilled
import judged
import measuring
import pytest
import torch
import train_votes
import which
from datasets import Dataset
from huggingface_hub import ModelCard

from narrative_twins import StoryEncoder
from narrative_twins.evaluation import load_labelled

from support.models import SENTENCES


@pytest.fixture
def works(tmp_path, monkeypatch):
    part = {"id": "a", "column": "sentences", "start": 2, "marks": [0, 9, 3]}
    whole = {"id": "a", "marks": [0, 2, 1] + [0] * (len(SENTENCES) - 3)}
    rows = {
        "prose_marks.jsonl": [
            {**part, "file": "tales.jsonl"},
            *({**part, "file": "fairytaleqa.jsonl", "id": str(number)} for number in range(8)),
            {**part, "file": "tellings.jsonl", "column": "tellings", "telling": 1},
        ],
        "prose_texts.jsonl": [
            {"id": "b", "story": SENTENCES[2:5], "marks": [0, 9, 0], "again": [[0, 9, 6]]}
        ],
        "story_votes.jsonl": [{**whole, "file": "stories.jsonl"}],
        "film_turning_points.jsonl": [{**whole, "file": "plots.jsonl"}],
    }
    monkeypatch.setattr(judged, "HERE", tmp_path)
    monkeypatch.setattr(judged, "PHRASE", 99)  # All of these works have the same text.
    spaced = [sentence.replace(" ", "  ") for sentence in SENTENCES]
    work = {"sentences": spaced, "tellings": [{"sentences": []}, {"sentences": spaced}]}
    for name, judgments in rows.items():
        for row in judgments:
            start = row.get("start", 0)
            row["text"] = judged.digest(SENTENCES[start : start + len(row["marks"])])
            if "file" in row:
                with (tmp_path / row["file"]).open("a") as file:
                    file.write(json.dumps({"id": row["id"], **work}) + "\n")
        (tmp_path / name).write_text("\n".join(map(json.dumps, judgments)))
    id_ = next(id_ for id_ in map(str, range(8)) if not judged.is_held_out(id_))
    work = {"id": id_, "tellings": [{"sentences": SENTENCES * 2}, {"sentences": SENTENCES[2:4]}]}
    (tmp_path / "squality_plot_twins.jsonl").write_text(json.dumps(work))
    return tmp_path


def test_judged_texts(works, monkeypatch):
    """About every second work of fairytaleqa is held out."""
    kept = judged.judged_passages(works, held_out=False)
    held = judged.judged_passages(works, held_out=True)
    assert len(kept) > 3 and held and len(kept + held) == 11
    expected = {"story": SENTENCES[2:5], "labels": [0, 1, pytest.approx(1 / 3)]}
    assert all(row == expected for row in kept + held)
    (story,), (film,) = judged.judged_stories(works), judged.judged_films(works)
    assert story["story"] == film["story"] == SENTENCES
    assert story["counts"] == film["labels"] == [0, 2, 1] + [0] * (len(SENTENCES) - 3)
    monkeypatch.setattr(judged, "PHRASE", 5)
    assert judged.judged_passages(works, held_out=False) == [], "text of works that are held out"
    assert judged.judged_passages(works, held_out=True) == held
    (works / "tales.jsonl").write_text(json.dumps({"id": "a", "sentences": SENTENCES[1:]}))
    with pytest.raises(SystemExit, match="tales.jsonl, a: not the text that was judged"):
        judged.judged_passages(works, held_out=False)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["distilled", "base", "base-distilled"])
def test_training_on_votes(stage, tmp_path, bert_folder, works, monkeypatch):
    """Every data set in a batch or two, and no run twice."""
    quiet = {"use_cpu": True, "disable_tqdm": True, "bf16": False}
    rows = {stage: dict.fromkeys(rows, 2) for stage, rows in train_votes.ROWS.items()}
    monkeypatch.setattr(train_votes, "ROWS", rows)
    monkeypatch.setattr(train_votes, "SETTINGS", train_votes.SETTINGS | quiet)
    monkeypatch.setattr(distilled, "PASSAGE", 4)
    monkeypatch.setattr(train_votes, "check_data", lambda *names: None)
    monkeypatch.setattr(train_votes, "report", lambda *arguments: None)
    stories = {"roc_stories.jsonl": SENTENCES[:5], "wiki_film_plots.jsonl": SENTENCES * 9}
    for file, story in stories.items():
        (works / file).write_text(json.dumps({"id": "new", "sentences": story[:40]}))
    out = tmp_path / "runs"
    flags = ["--stage", stage, "--base", bert_folder, "--seeds", "0", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["train_votes.py", str(works), *flags])
    train_votes.main()
    folders = (out / "seed-0" / "encoder", out / "seed-1" / "encoder", bert_folder, out / "encoder")
    *seeds, base, mean = (
        StoryEncoder.from_pretrained(folder, device="cpu").model.state_dict() for folder in folders
    )
    part = train_votes.BASE_PART[stage]
    for name, found in mean.items():
        expected = (seeds[0][name] + seeds[1][name] + part * base[name]) / (2 + part)
        torch.testing.assert_close(found.float(), expected.half().float())
    assert any(not torch.equal(seeds[0][name], seeds[1][name]) for name in mean)
    monkeypatch.setattr(train_votes, "train", None)
    train_votes.main()


@pytest.mark.parametrize(
    "facts", ["twins_encoder.yaml", "default_encoder.yaml", "base_encoder.yaml"]
)
def test_card_of_the_default_encoder_is_complete(tmp_path, facts):
    measured = dict.fromkeys(measuring.COLUMNS.values(), 0.25)
    options = {"objective": " (settings)", "seeds": "0, 1"}
    measuring.write_card(tmp_path, facts, "| the table |", measured, **options)
    card = ModelCard.load(tmp_path / "README.md")
    assert [result.metric_value for result in card.data.eval_results] == [0.25] * len(measured)
    assert card.data.license == "apache-2.0"
    assert "| the table |" in card.content and "{{" not in card.content
    assert "Seeds: 0, 1" in card.content and "(settings)" in card.content


@pytest.mark.slow
def test_which_encoder(tmp_path, bert_folder, monkeypatch):
    """Every row and column of the table is measured once; the card has the figures."""
    synopsis = {"story": SENTENCES * 2, "turning_points": [0, 3, 6, 8, 11]}
    tale = {"story": SENTENCES, "labels": list(range(len(SENTENCES)))}
    rows = {"stories": tale, "films": synopsis, "tales": tale, "summaries": tale}
    sets = [load_labelled(Dataset.from_list([row] * 2), name=name) for name, row in rows.items()]
    twins = Dataset.from_list(
        [{"story": SENTENCES, "twin": SENTENCES, "negative": SENTENCES[::-1]}]
    )
    monkeypatch.setattr(which, "labelled", lambda data: sets)
    monkeypatch.setattr(which, "check_data", lambda *names: None)
    for name in ("load_story_twins", "load_window_twins", "triples"):
        monkeypatch.setattr(which, name, lambda *data, **options: twins)
    base = tmp_path / "base"
    shutil.copytree(bert_folder, base)
    page = tmp_path / "encoders.md"
    page.write_text(f"# Before\n{which.BORDER}\nold\n{which.BORDER}\n# After\n")
    flags = ["--default", bert_folder, "--base", str(base), "--plain", f"tiny={bert_folder}"]
    flags += ["--out", str(tmp_path / "out"), "--docs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["which.py", str(tmp_path), *flags])
    which.main()
    before, table, after = page.read_text().split(which.BORDER)
    assert (before, after) == ("# Before\n", "\n# After\n") and "old" not in table
    trained = ["default, exact", "default, one pass", "base, exact", "base, one pass"]
    names = [line.split(" | ")[0][2:] for line in table.strip().splitlines()[2:]]
    assert names == [*trained, "tiny, not trained", *which.BASELINES]
    figures = json.loads((tmp_path / "out" / "which.json").read_text())
    assert all(len(figures[name]) == len(figures["base, exact"]) >= 13 for name in trained)
    assert figures["tiny, not trained"].items() <= figures["base, exact"].items()
    card = ModelCard.load(base / "README.md")
    assert len(card.data.eval_results) == len(which.OF_CARD) and table.strip() in card.content
    assert (tmp_path / "encoders.svg").exists()
    monkeypatch.setattr(which.StoryEncoder, "from_pretrained", None)
    assert which.nearer({"base": str(base)}, tmp_path, tmp_path / "out" / "twins.json")

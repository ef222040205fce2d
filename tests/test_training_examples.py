"""The training scripts with a small random encoder."""

import json
import runpy
import shutil
import sys
from functools import cache
from pathlib import Path

import distilled
import judged
import measuring
import pytest
import torch
import train_votes
import which
from datasets import Dataset
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer

from narrative_twins import StoryEncoder
from narrative_twins.evaluation import load_labelled
from narrative_twins.training.script import ScriptArguments, parse_arguments

from support.examples import EXAMPLES, run
from support.models import SENTENCES

CONFIGS = sorted(
    {*(EXAMPLES / "configs").rglob("*.yaml")} - {*EXAMPLES.glob("configs/reproduce/*")}
)


def losses(folder: Path) -> list[list[float]]:
    return json.loads((folder / "curves.json").read_text())["loss"]


def figures(folder: Path) -> dict[str, float]:
    return json.loads((folder / "eval_results.json").read_text())


@pytest.fixture
def shared(tmp_path, bert_folder) -> tuple[object, ...]:
    return "--smoke", "--encoder", bert_folder, "--use_cpu", "--output_dir", tmp_path


@pytest.mark.parametrize(
    ("name", "metrics", "flags"),
    [
        ("roc", {"eval_loss"}, ["--pooling", "first", "--operations", "deletion"]),
        ("mlm", {"eval_loss"}, ["--pooling", "first", "--operations", "deletion"]),
        ("wiki", {"eval_loss", "eval_salience_deletion_auc"}, ["--operations", "deletion"]),
        ("salience", {"eval_judged_loss", "eval_salience_summarization_spearman"}, []),
    ],
)
def test_smoke(name, metrics, flags, shared, tmp_path):
    out = run(f"train_{name}.py", *shared, "--context_tokens", 200, "--max_steps", 2, *flags)
    assert "2 steps" in out and "on 1 process (cpu)" in out
    for file in ("final", "curves.json", "curves.png", "eval_results.json", "checkpoint-2"):
        assert (tmp_path / file).exists() and file in out.partition("written to")[2]
    assert [step for step, _ in losses(tmp_path)] == [1, 2]
    measured = figures(tmp_path)
    assert {"eval_twins_accuracy", *metrics} <= measured.keys() and measured["step"] == 2
    assert not [metric for metric in measured if "shifting" in metric]
    pooling = "first" if "first" in flags else "mean"
    assert StoryEncoder.from_pretrained(tmp_path / "final", device="cpu").pooling == pooling
    assert len(SentenceTransformer(str(tmp_path / "final"), device="cpu")) == 2
    card = (tmp_path / "final" / "README.md").read_text(encoding="utf-8")
    assert ("masked language modeling" in card) is (name == "mlm")


@pytest.mark.slow
def test_smoke_that_is_resumed(shared, tmp_path):
    """The run with more steps resumes the first one."""
    flags = *shared, "--operations", "summarization"
    run("train_wiki.py", *flags)
    state = tmp_path / "checkpoint-2" / "trainer_state.json"
    written, before = state.stat().st_mtime_ns, losses(tmp_path)
    assert "3 steps" in run("train_wiki.py", *flags, "--max_steps", 3, "--resume")
    assert state.stat().st_mtime_ns == written, "the checkpoint is not written again"
    assert losses(tmp_path)[:2] == before and len(losses(tmp_path)) == 3
    assert figures(tmp_path)["step"] == 3, "validated although it is no multiple of eval_steps"


def script_of(config: Path) -> str:
    is_baseline = config.stem.endswith("mlm")
    return "train_mlm.py" if is_baseline else f"train_{config.stem.split('_')[0]}.py"


content_of = cache(runpy.run_path)


def parsed(config: Path):
    """The training arguments and script arguments of a config, as its script parses them."""
    content = content_of(str(EXAMPLES / script_of(config)))
    names = ("NarrativeTwinsTrainingArguments", "MaskedTrainingArguments")
    kind = next(content[name] for name in names if name in content)
    options = {"script": content.get("Recipe", ScriptArguments)}
    options["argv"] = ["--config", str(config), "--use_cpu"]
    return parse_arguments(kind, content["DEFAULTS"], content["SMOKE"], **options)


PAPER = {
    **{"num_train_epochs": 5, "learning_rate": 3e-5, "lr_scheduler_type": "linear", "seed": 43},
    **{"weight_decay": 0.01, "warmup_steps": 0, "max_grad_norm": 0, "bf16": True, "eval_steps": 50},
    **{"dataloader_drop_last": True, "temperature": 0.05, "pooling": "mean", "twins": "narrative"},
    **{"distractors": True, "in_story_negatives": True, "in_batch_negatives": True},
    "distractor_loss": "joint",
}
ABLATIONS = {
    "roc_no_distractors_released": {"distractor_loss": "separate"},
    "roc_only_distractors": {"in_batch_negatives": False},
    "wiki_only_distractors": {"in_batch_negatives": False, "in_story_negatives": False},
    "no_distractors": {"distractors": False},
    "no_in_story_negatives": {"in_story_negatives": False},
    "no_hard_negatives": {"distractors": False, "in_story_negatives": False},
    "no_distractors_no_in_batch": {"distractors": False, "in_batch_negatives": False},
    "first_token": {"pooling": "first"},
    "dropout_twins": {"twins": "dropout"},
    "roc_entities": {"distractors": False},
    "wiki_entities": {"distractors": False, "in_story_negatives": False},
}
"""What is changed, by name, or by name without the kind of stories."""
MAIN = {"wiki_dropout_twins", "wiki_no_distractors"}
"""Configs among the ablations that are rows of the paper's main table of synopses."""


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_configs_have_the_settings_of_the_paper(config):
    """Also those of ablations, which inherit them and change what they are called."""
    kind, _, ablation = config.stem.partition("_")
    shown = config.relative_to(EXAMPLES.parent).as_posix()
    assert f"examples/{script_of(config)} --config {shown}" in config.read_text()
    arguments, script = parsed(config)
    assert arguments.output_dir == f"runs/{config.stem}-seed43", "no run overwrites another"
    assert script.encoder and script.train_source
    is_ablation, changes = config.parent.name == "ablations", {}
    if is_ablation:
        changes = ABLATIONS[config.stem if config.stem in ABLATIONS else ablation]
        base = {"roc": "roc_bert_large.yaml", "wiki": "wiki_ettin.yaml"}[kind]
        _, full = parsed(EXAMPLES / "configs" / base)
        assert script.encoder == full.encoder
        assert (script.train_source == full.train_source) is (ablation != "entities")
    rows = (4 if is_ablation and config.stem not in MAIN else 16) if kind == "wiki" else 128
    assert arguments.per_device_train_batch_size == rows
    values = vars(arguments) | {"pooling": script.pooling or "mean"}
    expected = PAPER | changes
    if script_of(config) == "train_mlm.py":
        expected = {name: value for name, value in expected.items() if name in values}
    assert {name: values[name] for name in expected} == expected


# The default encoder


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

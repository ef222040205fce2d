"""The training scripts with a small random encoder."""

import json
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from narrative_twins import StoryEncoder

from support.examples import run
from support.models import SENTENCES
from support.rows import write_rows


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
    assert "masked language modeling" not in card


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


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("roc", {"story": SENTENCES, "twin": SENTENCES[::-1], "negative": SENTENCES[1:]}),
        ("salience", {"story": SENTENCES, "votes": [5, *[0] * (len(SENTENCES) - 1)]}),
    ],
)
@pytest.mark.slow
def test_own_rows(name, row, shared, tmp_path):
    """Without a validation split there is no validation, and with `--eval_source` there is one."""
    file = write_rows(tmp_path / "mine.jsonl", [{"id": str(n), **row} for n in range(3)])
    flags = [*shared, "--train_source", file, "--max_steps", 1, "--operations", "deletion"]
    run(f"train_{name}.py", *flags, "--eval_strategy", "no")
    assert figures(tmp_path) == {"step": 1}
    assert "mine.jsonl" in (tmp_path / "final" / "README.md").read_text(encoding="utf-8")
    run(f"train_{name}.py", *flags, "--eval_source", file)
    assert {"eval_twins_accuracy", "step"} < figures(tmp_path).keys()

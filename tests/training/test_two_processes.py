"""Two processes that train together match one process with the batches of both."""

from __future__ import annotations

import json

import pytest
import torch

from narrative_twins.training.losses import NarrativeTwinsLoss

from support.models import trainable
from support.twins_batches import FILMS, STORIES, TWINS, WINDOWS, assert_same, features, trained
from support.two_processes import run_two

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("two processes")]
"""All in one worker, since `together` takes long."""

MIXED = [
    {"story": (["Nadia ran.", "Rain."], [0, 1]), "twin": (["She ran.", "It rained."], [0, 1])},
    *WINDOWS,
]
"""A short story and long ones."""
LOSSES = [
    # The rows, those of them in the first process, and settings. The processes have different
    # numbers of rows and windows, and distractors with and without twins.
    (STORIES, {0}, {}),
    (STORIES, {0}, {"in_batch_negatives": False}),
    (STORIES, {0}, {"distractor_loss": "separate"}),
    (WINDOWS, {0, 1}, {}),
    (WINDOWS, {0, 1}, {"in_story_negatives": False}),
    (WINDOWS, {0, 1}, {"in_batch_negatives": False}),
    (MIXED, {0}, {}),
]
RUNS = {
    # A stream in its third pass, and two data sets in their second epoch.
    "stream": {
        "rows": {"films": FILMS},
        "shards": 3,
        "arguments": {"max_steps": 5, "save_steps": 4},
    },
    "several": {
        "rows": {"stories": TWINS[:9], "windows": FILMS},
        "shards": None,
        "arguments": {"num_train_epochs": 2, "save_steps": 5, "window_batch_size": 1},
    },
}


def share(batch: dict[str, torch.Tensor], rows: set[int]) -> dict[str, torch.Tensor]:
    """Some rows of a batch as a separate batch: without surplus padding, with rows counted from
    0."""
    kept = torch.tensor([row in rows for row in batch["row"].tolist()])
    part = {key: value[kept] for key, value in batch.items()}
    longest = int(part["attention_mask"].sum(dim=1).max())
    part |= {key: value[:, :longest] for key, value in part.items() if value.ndim > 1}
    return part | {"row": part["row"] - min(rows)}


@pytest.fixture(scope="module")
def together(tmp_path_factory, bert_folder):
    """What two processes are given, what each has found, and the losses of one process."""
    folder = tmp_path_factory.mktemp("together")
    encoder = str(folder / "encoder")
    model = trainable().eval()
    model.save(encoder, create_model_card=False)
    model.double()
    losses, alone = {}, {}
    for number, (texts, first, changed) in enumerate(LOSSES):
        batch, options = features(model, texts), {"temperature": 0.5, **changed}
        expected = trained(NarrativeTwinsLoss(model, **options)([batch]), model)
        batches = [share(batch, first), share(batch, set(range(len(texts))) - first)]
        for size in (None, 2):
            settings = options | {"mini_batch_size": size}
            losses[f"{number}, {size}"] = {
                "model": encoder,
                "batches": batches,
                "settings": settings,
            }
            alone[f"{number}, {size}"] = expected
    options = {"save_strategy": "steps", "per_device_train_batch_size": 2, "learning_rate": 1e-3}
    runs = {
        name: {**run, "model": encoder, "arguments": options | run["arguments"]}
        for name, run in RUNS.items()
    }
    script = ["train_roc.py", "--smoke", "--use_cpu", "--encoder", bert_folder]
    script += ["--output_dir", str(folder / "script"), "--gather_across_devices", "true"]
    given = {"losses": losses, "runs": runs, "script": script}
    torch.save(given, folder / "settings.pt")
    return folder, given, run_two(folder), alone


def test_loss_and_gradients_match_one_process(together):
    """Although the processes have different numbers of rows, windows and mini-batches."""
    _, _, both, alone = together
    for name, expected in alone.items():
        for found in both:
            assert_same(found["losses"][name], expected, 1e-5)


def test_runs_in_two_processes(together):
    """Runs and the same runs resumed: both processes have equally many batches, no rows in common,
    and the same weights."""
    _, given, both, _ = together
    start = trainable().state_dict()
    for name, run in given["runs"].items():
        first, second = (found["runs"][name] for found in both)
        skipped = run["arguments"]["save_steps"]
        for found in (first, second):
            whole, resumed = found["batches"]
            assert len(whole) > skipped and resumed == whole[skipped:], name
        assert all(a != b for a, b in zip(first["batches"][0], second["batches"][0], strict=True))
        weights = first["weights"]
        assert all(torch.equal(weights[key], second["weights"][key]) for key in weights)
        assert any(not torch.equal(weights[key], start[key]) for key in weights)


def test_a_script_in_two_processes(together):
    folder, _, (first, second), _ = together
    assert "on 2 processes (cpu)" in first["printed"]
    assert "2.00 epochs" in first["printed"], "each process has half of the rows"
    assert not second["printed"], "only one process prints"
    assert "eval_loss" in json.loads((folder / "script" / "eval_results.json").read_text())

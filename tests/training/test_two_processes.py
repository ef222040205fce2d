"""Two processes that train together match one process with the batches of both."""

from __future__ import annotations

import json

import pytest
import torch

from narrative_twins.training.losses import NarrativeTwinsLoss

from support.models import trainable
from support.twins_batches import (
    FILMS,
    STORIES,
    TWINS,
    WINDOWS,
    assert_same,
    features,
    text,
    texts,
    trained,
)
from support.two_processes import run_two

SHORT = texts(text("Nadia ran.", "Rain.", at="01"), text("She ran.", "It rained.", at="01"))
LOSSES = [
    # The texts, how many rows of them are in the first process, and settings. The processes have
    # different numbers of rows and windows, and distractors with and without twins.
    (STORIES, 1, {}),
    (STORIES, 1, {"in_batch_negatives": False}),
    (STORIES, 1, {"distractor_loss": "separate"}),
    (WINDOWS, 2, {}),
    (WINDOWS, 2, {"in_story_negatives": False}),
    (WINDOWS, 2, {"in_batch_negatives": False}),
    ([SHORT, *WINDOWS], 1, {}),
]
OPTIONS = {"save_strategy": "steps", "per_device_train_batch_size": 2, "learning_rate": 1e-3}
RUNS = [
    # A stream in its third pass, and two data sets in their second epoch.
    ({"stream": FILMS}, OPTIONS | {"max_steps": 5, "save_steps": 4}),
    (
        {"stories": TWINS[:9], "windows": FILMS},
        OPTIONS | {"num_train_epochs": 2, "save_steps": 5, "window_batch_size": 1},
    ),
]


def share(batch: dict[str, torch.Tensor], rows: range) -> dict[str, torch.Tensor]:
    """Some rows of a batch as a separate batch: without surplus padding, with rows counted from
    0."""
    kept = torch.tensor([row in rows for row in batch["row"].tolist()])
    part = {key: value[kept] for key, value in batch.items()}
    longest = int(part["attention_mask"].sum(dim=1).max())
    part |= {key: value[:, :longest] for key, value in part.items() if value.ndim > 1}
    return part | {"row": part["row"] - rows.start}


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path, bert_folder):
    """In one test, since processes take long to start."""
    encoder, model = str(tmp_path / "encoder"), trainable().eval()
    model.save(encoder, create_model_card=False)
    start = {name: weight.clone() for name, weight in model.state_dict().items()}
    model.double()
    cases, expected = [], []
    for batch, first, changed in LOSSES:
        inputs, options = features(model, batch), {"temperature": 0.5, **changed}
        alone = trained(NarrativeTwinsLoss(model, **options)([inputs]), model)
        shares = [share(inputs, range(first)), share(inputs, range(first, len(batch)))]
        for size in (None, 2):
            cases.append((shares, options | {"mini_batch_size": size}))
            expected.append(alone)
    script = ["train_roc.py", "--smoke", "--use_cpu", "--encoder", bert_folder]
    script += ["--output_dir", str(tmp_path / "script"), "--gather_across_devices", "true"]
    both = run_two(tmp_path, encoder, cases, RUNS, script)

    # Losses and gradients, although numbers of rows, windows and mini-batches differ.
    for results in both:
        for measured, alone in zip(results["losses"], expected, strict=True):
            assert_same(measured, alone, 1e-5)
    # Runs, and the same runs resumed: equally many batches, other rows, and the same weights.
    for (_, options), *runs in zip(RUNS, *(results["runs"] for results in both), strict=True):
        for (whole, resumed), skipped in ((run["batches"], options["save_steps"]) for run in runs):
            assert len(whole) > skipped and resumed == whole[skipped:]
        first, second = (run["batches"][0] for run in runs)
        assert all(a != b for a, b in zip(first, second, strict=True))
        weights, others = (run["weights"] for run in runs)
        assert all(torch.equal(weights[name], others[name]) for name in weights)
        assert any(not torch.equal(weights[name], start[name]) for name in weights)
    # A script prints once, for both: each has half of the rows.
    first, second = (results["printed"] for results in both)
    assert "on 2 processes (cpu)" in first and "2.00 epochs" in first and not second
    assert "eval_loss" in json.loads((tmp_path / "script" / "eval_results.json").read_text())

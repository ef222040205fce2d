"""Two processes that share their negatives match one process with the batches of both."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from narrative_twins.training.losses import NarrativeTwinsLoss

from support import two_processes
from support.models import encoder_of, trainable
from support.twins_batches import FILMS, STORIES, TWINS, WINDOWS, assert_same, features, trained
from support.two_processes import run_two

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("two processes")]
"""All in one worker, since `together` takes long."""

CHANGED = {
    "windows": [{"in_story_negatives": False}, {"in_batch_negatives": False}],
    "stories": [{"in_batch_negatives": False}, {"distractor_loss": "separate"}],
}
"""Settings to compare besides the default ones, by level."""


def share(batch: dict[str, torch.Tensor], rows: set[int]) -> dict[str, torch.Tensor]:
    """Some rows of a batch as a separate batch: without surplus padding, with rows counted from
    0."""
    kept = torch.tensor([row in rows for row in batch["row"].tolist()])
    part = {key: value[kept] for key, value in batch.items()}
    longest = int(part["attention_mask"].sum(dim=1).max())
    part |= {key: value[:, :longest] for key, value in part.items() if value.ndim > 1}
    return part | {"row": part["row"] - min(rows)}


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Loss and gradients of one process, and of each of two processes, by setting."""
    folder = tmp_path_factory.mktemp("together")
    model = trainable().eval()
    model.save(str(folder / "model"), create_model_card=False)
    model.double()
    # The processes have different numbers of rows and windows, and distractors with and without
    # twins.
    levels = {"stories": (STORIES, {0}), "windows": (WINDOWS, {0, 1})}
    levels["short and long"] = (
        [
            {
                "story": (["Nadia ran.", "Rain."], [0, 1]),
                "twin": (["She ran.", "It rained."], [0, 1]),
            },
            *WINDOWS,
        ],
        {0},
    )
    cases, expected = {}, {}
    for level, (texts, first) in levels.items():
        batch = features(model, texts)
        batches = [share(batch, first), share(batch, set(range(len(texts))) - first)]
        for size in (None, 2):
            for changed in [{}, *CHANGED.get(level, [])]:
                settings = {"temperature": 0.5, **changed}
                name = f"{level}, {size}, {changed}"
                cases[name] = {
                    "model": str(folder / "model"),
                    "batches": batches,
                    "settings": settings | {"mini_batch_size": size},
                }
                expected[name] = trained(NarrativeTwinsLoss(model, **settings)([batch]), model)
    torch.save(cases, folder / "cases.pt")
    run_two("loss", folder / "cases.pt", folder)
    return {
        name: (one, [torch.load(folder / f"{name}-{rank}.pt") for rank in (0, 1)])
        for name, one in expected.items()
    }


@pytest.mark.parametrize("size", [None, 2])
@pytest.mark.parametrize("level", ["stories", "windows", "short and long"])
def test_loss_and_gradients_match_one_process(together, level, size):
    """Although the processes have different numbers of rows, windows and mini-batches."""
    names = [name for name in together if name.startswith(f"{level}, {size}")]
    assert names
    for name in names:
        single, both = together[name]
        for found in both:
            assert_same(found, single, 1e-5)


@pytest.mark.parametrize("size", [None, 3])
def test_masked_language_modeling_matches_one_process(size, tmp_path):
    """Loss and norm of the gradient, although the processes have different numbers of texts and
    masked tokens."""
    model, tokenizer = encoder_of("bert")
    BertForMaskedLM(model.config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    rows = [
        {"story": [f"Nadia found {at} coins."] * (1 + at), "twin": ["She did."] * (at > 3) or None}
        for at in range(8)
    ]
    settings = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
    # The weights do not change, because Adam turns rounding errors of tiny gradients into full
    # updates.
    settings |= {"max_steps": 2, "logging_steps": 1, "learning_rate": 0.0, "mini_batch_size": size}
    file = tmp_path / "settings.json"
    file.write_text(
        json.dumps({"model": str(tmp_path / "model"), "rows": rows, "arguments": settings})
    )
    two_processes.mlm(file, tmp_path)
    run_two("mlm", file, tmp_path)
    one, two = (json.loads((tmp_path / f"mlm-{count}.json").read_text()) for count in (1, 2))
    assert np.array(two) == pytest.approx(np.array(one), rel=1e-4) and len(two) == 2


def test_runs_in_two_processes(tmp_path):
    """A stream in its third pass, and two data sets in their second epoch, each resumed: both
    processes have equally many batches, no rows in common, and the same weights."""
    trainable().save(str(tmp_path / "model"), create_model_card=False)
    several = {"stories": TWINS[:9], "windows": FILMS}
    options = {"num_train_epochs": 3, "save_steps": 5, "window_batch_size": 1}
    runs = {
        "stream": {
            "rows": {"films": FILMS},
            "shards": 3,
            "arguments": {"max_steps": 5, "save_steps": 4},
        },
        "several": {"rows": several, "shards": None, "arguments": options},
    }
    arguments = {"use_cpu": True, "report_to": "none", "disable_tqdm": True}
    arguments |= {"per_device_train_batch_size": 2, "learning_rate": 1e-3}
    settings = {"model": str(tmp_path / "model"), "runs": runs, "arguments": arguments}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    run_two("runs", tmp_path / "settings.json", tmp_path)
    first, second = (torch.load(tmp_path / f"runs-{rank}.pt") for rank in (0, 1))
    start = trainable().state_dict()
    for name, run in runs.items():
        skipped = run["arguments"]["save_steps"]
        for (whole, resumed), world, _ in (first[name], second[name]):
            assert world == 2
            assert len(whole) > skipped and resumed == whole[skipped:], name
        (one, _), _, weights = first[name]
        (other, _), _, others = second[name]
        assert all(a != b for a, b in zip(one, other, strict=True))
        assert all(torch.equal(weights[key], others[key]) for key in weights)
        assert any(not torch.equal(weights[key], start[key]) for key in weights)

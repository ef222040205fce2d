"""Batches of narrative twins for tests of the loss and its gradients."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from sentence_transformers import SentenceTransformer

from narrative_twins import StoryEncoder
from narrative_twins.training.losses import NarrativeTwinsLoss, TwinsCollator
from narrative_twins.training.trainer import NarrativeTwinsTrainer, NarrativeTwinsTrainingArguments

from support.models import SENTENCES, trainable


def text(*sentences: str) -> tuple[list[str], list[int]]:
    """A text of one window."""
    return list(sentences), [0] * len(sentences)


def several(*windows: tuple[int, str]) -> tuple[list[str], list[int]]:
    """A text of several windows, from pairs of window and sentence."""
    return [sentence for _, sentence in windows], [window for window, _ in windows]


S = SENTENCES
STORIES = [
    {
        "story": text(S[0], S[1]),
        "twin": text(S[2]),
        "negative": text(S[3]),
        "negative_twin": text(S[5], S[6]),
    },
    {"story": text(S[4]), "twin": text("A flood.", S[1])},
    {
        "story": text("It rained."),
        "twin": text("Rain fell."),
        "negative": text("She didn't answer."),
    },
    {
        "story": text("I was there."),
        "twin": text("He was."),
        "negative": text(S[2]),
        "negative_twin": text(S[0]),
    },
]
"""Rows with a distractor and its twin, with a distractor only, and without distractors."""
WINDOWS = [
    {
        "story": several((0, "Nadia ran."), (0, "It rained."), (1, S[2]), (2, "I was there.")),
        "twin": several((1, "She swam."), (0, S[3]), (-1, "Why?"), (2, "So was he.")),
        "negative": several((0, "A toy."), (1, S[5]), (2, "The mill!")),
    },
    {
        "story": several((0, S[6]), (1, "They told no one."), (2, "Silver coins.")),
        # No sentence is in window 1.
        "twin": several((0, "A letter."), (0, "They never told."), (2, "It was gold.")),
    },
    {
        "story": several((0, "The bridge was gone!"), (1, "Water."), (2, S[1])),
        "twin": several((0, "No bridge."), (1, "A river."), (2, "He laughed.")),
        "negative": several((0, "At dawn."), (2, "Night."), (2, "They walked.")),
    },
]
"""Rows with windows that are missing in the twin or in the distractor."""
FILMS = [
    {
        "story": [[f"Nadia found {at} coins."], ["It rained."], ["They never told anyone."]],
        "twin": ["Money was found.", f"{at} of it.", "A flood.", "She was silent."],
        "twin_windows": [[0], [0, 1], [1], [2]],
        "negative": [
            ["Her brother laughed."],
            [f"The mill burned down {at} times."],
            ["I was there."],
        ],
    }
    for at in range(7)
]
"""Rows of a data set with windows; a sentence of each twin belongs to one of two."""
TWINS = [
    {
        "story": [f"Nadia found {at} coins.", "She swam across."],
        "twin": ["Money was found.", f"{at} of it."],
        "negative": [f"Her brother laughed {at} times."],
        "negative_twin": [f"He laughed, {at} times."],
    }
    for at in range(12)
]
"""Rows of a data set of stories."""
LEVELS = {"stories": STORIES, "windows": WINDOWS}


QUIET = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
"""Arguments of a run that only trains."""


class Seen(NarrativeTwinsLoss):
    """The loss of the trainer, which keeps the token ids and the windows of each batch in
    `batches`."""

    def __init__(self, model, **options) -> None:
        super().__init__(model, **options)
        self.batches: list[tuple[str, str]] = []

    def forward(self, sentence_features, labels=None):
        (texts,) = sentence_features
        self.batches.append((str(texts["input_ids"].tolist()), str(texts["window_ids"].tolist())))
        return super().forward([texts], labels)


def trainer_of(folder, data, model=None, **options) -> NarrativeTwinsTrainer:
    """A trainer on a CPU with a small encoder; `options` are its own and those of its
    arguments."""
    names = ("eval_dataset", "evaluator", "loss", "callbacks")
    of_trainer = {name: options.pop(name) for name in names if name in options}
    arguments = NarrativeTwinsTrainingArguments(str(folder), **QUIET | options)
    return NarrativeTwinsTrainer(model or trainable(), arguments, data, **of_trainer)


def without_dropout(model):
    """A model that two runs train alike, even if one of them recomputes or compiles it."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def logged(trainer, name: str = "loss") -> list[float]:
    """The values of a quantity that a trainer has logged."""
    return [entry[name] for entry in trainer.state.log_history if name in entry]


@cache
def kept_model(pooling: str = "mean") -> SentenceTransformer:
    return trainable(pooling=pooling)


def model_of(pooling: str = "mean", training: bool = False) -> SentenceTransformer:
    """A cached model in float32, with gradients cleared."""
    model = kept_model(pooling).float().train(training)
    model.zero_grad()
    return model


def features(model: SentenceTransformer, texts, **options) -> dict[str, torch.Tensor]:
    """A batch in the format of the loss."""
    rows = []
    for row in texts:
        rows.append({})
        for side, (sentences, windows) in row.items():
            rows[-1] |= {
                side: sentences,
                f"{side}_windows": [[window] if window >= 0 else [] for window in windows],
            }
    batch = TwinsCollator(StoryEncoder.from_sentence_transformer(model).tokenizer, **options)(rows)
    # `StoryEncoder` has turned dropout off: restore the mode.
    model.train(model.training)
    return {key.removeprefix("texts_"): value for key, value in batch.items()}


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def trained(loss: torch.Tensor, model: torch.nn.Module) -> tuple[float, dict[str, torch.Tensor]]:
    """The value of a loss and its gradients in the model."""
    model.zero_grad()
    loss.backward()
    return loss.item(), gradients(model)


def assert_same(found, expected, tolerance: float = 1e-6) -> None:
    """Assert equality within the tolerance, which is relative for values above 1."""
    assert found[0] == pytest.approx(expected[0], abs=tolerance, rel=tolerance)
    assert found[1].keys() == expected[1].keys()
    largest = max(gradient.abs().max().item() for gradient in expected[1].values())
    assert largest > 0.01, "there is a gradient to compare"
    for name, gradient in expected[1].items():
        torch.testing.assert_close(
            found[1][name], gradient, rtol=0, atol=tolerance * max(1, largest), msg=name
        )

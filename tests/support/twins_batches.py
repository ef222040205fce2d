"""Narrative twins for tests of training: batches of the loss, rows of data sets, trainers."""

from functools import cache

import pytest
import torch
from sentence_transformers import SentenceTransformer

from narrative_twins import StoryEncoder
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.trainer import NarrativeTwinsTrainer, NarrativeTwinsTrainingArguments

from support.models import SENTENCES as S
from support.models import trainable

COLUMNS = ("story", "twin", "negative", "negative_twin")


def text(*sentences: str, at: str = "00") -> tuple[list[str], list[int]]:
    """Sentences, and the window of each: a digit, or x for none; by default all are in one."""
    windows = [-1 if window == "x" else int(window) for window in at]
    return list(sentences), windows[: len(sentences)]


def texts(*values) -> dict:
    return dict(zip(COLUMNS, values, strict=False))


STORIES = [
    texts(text(S[0], S[1]), text(S[2]), text(S[3]), text(S[5], S[6])),
    texts(text(S[4]), text("A flood.", S[1])),
    texts(text("It rained."), text("Rain fell."), text("She didn't answer.")),
    texts(text("I was there."), text("He was."), text(S[2]), text(S[0])),
]
"""Texts with a distractor and its twin, with a distractor only, and without distractors."""
WINDOWS = [
    texts(
        text("Nadia ran.", "It rained.", S[2], "I was there.", at="0012"),
        text("She swam.", S[3], "Why?", "So was he.", at="10x2"),
        text("A toy.", S[5], "The mill!", at="012"),
    ),
    texts(
        text(S[6], "They told no one.", "Silver coins.", at="012"),
        text("A letter.", "They never told.", "It was gold.", at="002"),
    ),
    texts(
        text("The bridge was gone!", "Water.", S[2], at="012"),
        text("No bridge.", "A river.", "He laughed.", at="012"),
        text("At dawn.", "Night.", "They walked.", at="022"),
    ),
]
"""Texts with windows that are missing in the twin or in the distractor."""
LEVELS = {"stories": STORIES, "windows": WINDOWS}
FILMS = [
    {
        "story": [[f"Nadia found {at} coins."], ["It rained."], ["They never told anyone."]],
        "twin": ["Money was found.", f"{at} of it.", "A flood.", "She was silent."],
        "twin_windows": [[0], [0, 1], [1], [2]],
        "negative": [["Her brother laughed."], [f"The mill burned {at} times."], ["I was there."]],
    }
    for at in range(7)
]
"""Rows of a data set with windows; a sentence of each twin belongs to one of two."""
TWINS = [
    texts(
        [f"Nadia found {at} coins.", "She swam across."],
        ["Money was found.", f"{at} of it."],
        [f"Her brother laughed {at} times."],
        [f"He laughed, {at} times."],
    )
    for at in range(12)
]
JUDGED = [
    {"story": [S[at % 5], "It rained.", f"He found {at} coins."], "counts": [0, 0, 1 + at]}
    for at in range(8)
]

QUIET = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}


class Seen(NarrativeTwinsLoss):
    """The loss of the trainer, which keeps the token ids and the windows of each batch in
    `batches`."""

    def __init__(self, model, **options) -> None:
        super().__init__(model, **options)
        self.batches: list[tuple[str, str]] = []

    def forward(self, sentence_features, labels=None):
        (batch,) = sentence_features
        self.batches.append((str(batch["input_ids"].tolist()), str(batch["window_ids"].tolist())))
        return super().forward([batch], labels)


def trainer_of(folder, data, model=None, **options) -> NarrativeTwinsTrainer:
    """A trainer on a CPU with a small encoder; `options` are its own and those of its
    arguments."""
    names = ("eval_dataset", "evaluator", "loss", "callbacks")
    of_trainer = {name: options.pop(name) for name in names if name in options}
    arguments = NarrativeTwinsTrainingArguments(str(folder), **QUIET | options)
    return NarrativeTwinsTrainer(model or trainable(), arguments, data, **of_trainer)


def logged(trainer, name: str = "loss") -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


_kept = cache(trainable)


def model_of(pooling: str = "mean", training: bool = False) -> SentenceTransformer:
    """A cached model in float32, with gradients cleared."""
    model = _kept(pooling=pooling).float().train(training)
    model.zero_grad()
    return model


def collated(loss, rows, context_tokens=None) -> dict:
    """The batch of a loss, as the trainer passes it on; the mode of the model is unchanged, although
    a `StoryEncoder` turns dropout off."""
    training = loss.model.training
    encoder = StoryEncoder.from_sentence_transformer(loss.model, context_tokens=context_tokens)
    loss.model.train(training)
    batch = loss.collator(encoder.tokenizer)(rows)
    return {key.removeprefix("texts_"): value for key, value in batch.items()}


def features(model: SentenceTransformer, batch) -> dict[str, torch.Tensor]:
    """Texts such as `STORIES` in the format of the loss."""
    rows = [
        {column: sentences for column, (sentences, _) in row.items()}
        | {
            f"{column}_windows": [[at] if at >= 0 else [] for at in w]
            for column, (_, w) in row.items()
        }
        for row in batch
    ]
    return collated(NarrativeTwinsLoss(model), rows)


def trained(loss: torch.Tensor, model: torch.nn.Module) -> tuple[float, dict[str, torch.Tensor]]:
    """The value of a loss and its gradients in the model."""
    model.zero_grad()
    loss.backward()
    weights = model.named_parameters()
    return loss.item(), {name: p.grad.clone() for name, p in weights if p.grad is not None}


def assert_same(measured, expected, tolerance: float = 1e-6) -> None:
    """Assert equality within the tolerance, which is relative for values above 1."""
    assert measured[0] == pytest.approx(expected[0], abs=tolerance, rel=tolerance)
    assert measured[1].keys() == expected[1].keys()
    largest = max(gradient.abs().max().item() for gradient in expected[1].values())
    assert largest > 0.01, "there is a gradient to compare"
    tolerance *= max(1, largest)
    for name, gradient in expected[1].items():
        torch.testing.assert_close(measured[1][name], gradient, rtol=0, atol=tolerance, msg=name)

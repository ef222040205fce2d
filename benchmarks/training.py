"""Time a training step, forward and backward, without the optimizer:

    python benchmarks/training.py [--model FOLDER_OR_ID] [--rounds 3] [--work ...]

For twins, "plain" is torch and sentence-transformers with default settings: all texts of a batch
padded to the longest. The others are the steps of `NarrativeTwinsTrainer`, in float32 and with
`bf16=True`. For votes, the steps are those of `SalienceLoss` in float32, in one pass and exact. Each
round runs all ways in turn; times are medians over rounds, ratios are medians of the ratios within
a round.
"""

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from speed import measure

from narrative_twins import StoryEncoder, trainable_encoder
from narrative_twins.data import load_story_salience, load_story_twins, load_window_twins
from narrative_twins.training import losses
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.salience_loss import SalienceLoss

TWINS = {
    "plain, float32": (False, False),
    "float32": (False, True),
    "plain, bfloat16": (True, False),
    "bfloat16": (True, True),
}
"""By name: whether products are in bfloat16, as with `bf16=True`; whether to batch texts by
length."""
VOTES: dict[str, dict[str, Any]] = {
    "summarization, one pass": {"operations": "summarization", "approximate": "one-pass"},
    "all operations, one pass": {"approximate": "one-pass"},
    "summarization, exact": {"operations": "summarization"},
    "all operations, max_shifts=2": {"max_shifts": 2},
    "all operations, exact": {},
}
"""The settings of `SalienceLoss` by name."""
WORK: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "32 stories": (load_story_twins, 32, TWINS),
    "8 synopses": (load_window_twins, 8, TWINS),
    "8 stories with votes": (load_story_salience, 8, VOTES),
    "2 passages with votes": (partial(load_story_salience, name="prose"), 2, VOTES),
}
"""By name: what loads the rows, how many, and the ways to train on them."""


def step(loss: Any, rows: Any, bfloat16: bool = False) -> tuple[Callable[[], float], int]:
    """A training step that returns the value of the loss and leaves the gradients in its model, and
    its number of tokens."""
    device = loss.model.device
    batch = loss.collator(StoryEncoder.from_sentence_transformer(loss.model).tokenizer)(rows)
    texts = {name.removeprefix("texts_"): values.to(device) for name, values in batch.items()}

    def run() -> float:
        loss.model.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            value = loss([texts])
        value.backward()
        return value.item()

    return run, int(texts["attention_mask"].sum())


def steps_of(model: str | None, rows: Any, way: Any) -> tuple[Callable[[], Any], int]:
    """One of the ways to take a step, and its number of tokens."""
    encoder = trainable_encoder(model)
    if isinstance(way, dict):
        return step(SalienceLoss(encoder, **way), rows)
    bfloat16, fast = way
    run, tokens = step(NarrativeTwinsLoss(encoder), rows, bfloat16)
    limit = losses.CPU_PASS_TOKENS if fast else 10**9
    return patch.object(losses, "CPU_PASS_TOKENS", limit)(run), tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--model", help="folder or Hub id (default: the default encoder)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", choices=WORK, nargs="+", default=list(WORK))
    arguments = parser.parse_args()
    for work in arguments.work:
        load, count, ways = WORK[work]
        rows = list(load(split=f"train[:{count}]"))
        steps = {name: steps_of(arguments.model, rows, way) for name, way in ways.items()}
        runs = {name: run for name, (run, _) in steps.items()}
        measure(runs, 1)  # a warm-up
        seconds = measure(runs, arguments.rounds)
        first, times_of_first = next(iter(seconds.items()))
        for name, times in seconds.items():
            ratio = median(a / b for a, b in zip(times, times_of_first, strict=True))
            tokens = steps[name][1]
            speed = f"{tokens:>7,} tokens   {ratio:>6.2f} times the time of {first}"
            print(f"{work}   {name:<28}{median(times):>7.2f} s   {speed}")


if __name__ == "__main__":
    main()

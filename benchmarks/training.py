"""Time a training step, forward and backward, without the optimizer:

    python benchmarks/training.py [--model FOLDER_OR_ID] [--rounds 3] [--work ...]

"Plain" is torch and sentence-transformers with default settings: all texts of a batch padded to the
longest. The others are the steps of `NarrativeTwinsTrainer`, in float32 and with `bf16=True`. Each
round runs all ways in turn; times are medians over rounds, ratios are medians of the ratios within
a round.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from tqdm.auto import tqdm

from narrative_twins import StoryEncoder, TwinsCollator, trainable_encoder
from narrative_twins.data import load_story_twins, load_window_twins
from narrative_twins.training import losses
from narrative_twins.training.losses import NarrativeTwinsLoss

WORK = {"32 stories": (load_story_twins, 32), "8 synopses": (load_window_twins, 8)}
WAYS = {
    "plain, float32": (False, False),
    "float32": (False, True),
    "plain, bfloat16": (True, False),
    "bfloat16": (True, True),
}
"""By name: whether products are in bfloat16, as with `bf16=True`; whether to batch texts by
length."""


def step(model: str | None, rows: Any, way: tuple[bool, bool]) -> tuple[Callable[[], None], int]:
    """A training step, and its number of tokens."""
    bfloat16, fast = way
    encoder = trainable_encoder(model)
    encoder.train()
    batch = TwinsCollator(StoryEncoder.from_sentence_transformer(encoder).tokenizer)(rows)
    texts = {name.removeprefix("texts_"): values for name, values in batch.items()}
    loss = NarrativeTwinsLoss(encoder)

    def run() -> None:
        limit = losses.CPU_PASS_TOKENS if fast else 10**9
        with patch.object(losses, "CPU_PASS_TOKENS", limit):
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                value = loss([texts])
            value.backward()
        encoder.zero_grad()

    return run, int(texts["attention_mask"].sum())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", help="folder or Hub id of the encoder (default: the default encoder)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", choices=WORK, nargs="+", default=list(WORK))
    arguments = parser.parse_args()
    for work in arguments.work:
        load, count = WORK[work]
        rows = list(load(split=f"train[:{count}]"))
        steps = {name: step(arguments.model, rows, way) for name, way in WAYS.items()}
        seconds: dict[str, list[float]] = {name: [] for name in steps}
        for number in tqdm(range(arguments.rounds + 1), desc=work):
            for name, (run, _) in steps.items():
                start = time.perf_counter()
                run()
                # The first round is a warm-up.
                if number:
                    seconds[name].append(time.perf_counter() - start)
        first = seconds["plain, float32"]
        for name, times in seconds.items():
            ratio = median(a / b for a, b in zip(first, times, strict=True))
            tokens = steps[name][1] / median(times)
            speed = f"{tokens:>7,.0f} tokens a second   {ratio:.2f} times as fast"
            print(f"{work}   {name:<28}{median(times):>7.2f} s   {speed}")


if __name__ == "__main__":
    main()

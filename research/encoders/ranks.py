"""Ranks and learning rates of a LoRA adapter, and all weights, compared after the same steps of the
first stage of an encoder.

    python research/encoders/ranks.py DATA --encoder multilingual \\
        --base intfloat/multilingual-e5-small --settings 32 32@1e-3 8@1e-3 all --out runs/ranks

A setting is a rank, or `all` for all weights but the embeddings, and perhaps a learning rate after
`@`; without one it is the rate of `train_adapters.py`, which says what DATA is. The learning rate
falls to 0 within the steps.

The table has Spearman of summarization, exactly and in one pass: *stories*, those of the half of
`roc_val.json` that settings are chosen by; *votes*, the validation stories of the package. *twins*
is how often a twin is nearer than the distractor there. A finished setting is not repeated.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from measuring import check_data, half
from train_adapters import RATES, STAGES, fit, with_adapter

from narrative_twins import StoryEncoder
from narrative_twins.data import load_story_salience, load_story_twins
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.trainer import trainable_encoder
from narrative_twins.writing import atomic_write

ALL_WEIGHTS_RATE = 8e-5
"""The learning rate of all weights, if none is named."""
COLUMNS = ("stories", "stories, one pass", "votes", "votes, one pass", "twins")


def parsed(setting: str, stage: str) -> tuple[int | None, float]:
    """The rank of a setting, None for all weights, and its learning rate."""
    size, _, rate = setting.partition("@")
    if size == "all":
        return None, float(rate or ALL_WEIGHTS_RATE)
    return int(size), float(rate or RATES[stage])


def new_model(base: str, rank: int | None) -> Any:
    """An encoder to train, with a new adapter, or with all weights but the embeddings."""
    if rank is not None:
        return with_adapter(base, None, rank)
    model = trainable_encoder(base)
    model[0].auto_model.embeddings.requires_grad_(False)
    return model


def measure(encoder: StoryEncoder, data: Path) -> dict[str, float]:
    """The figures of `COLUMNS`."""
    stories = half(load_story_salience(str(data / "roc_val.json"), "train"), held_out=False)
    sets = {"stories": stories, "votes": load_story_salience(split="validation")}
    figures = {}
    for name, rows in sets.items():
        for form in (None, "one-pass"):
            evaluator = SalienceEvaluator(rows, operations="summarization", approximate=form)
            column = f"{name}, one pass" if form else name
            figures[column] = evaluator(encoder)["summarization_spearman"]
    figures["twins"] = TwinsEvaluator(load_story_twins(split="validation"))(encoder)["accuracy"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of the research data")
    parser.add_argument("--encoder", choices=STAGES, required=True)
    parser.add_argument("--base", required=True, help="the base, a folder or Hub id")
    parser.add_argument("--settings", nargs="+", required=True, metavar="RANK[@RATE]")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    check_data(options.data, "roc_stories.jsonl", "wiki_film_plots.jsonl")
    stage = STAGES[options.encoder][0]
    print(f"| rank | learning rate | {' | '.join(COLUMNS)} |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for setting in options.settings:
        rank, rate = parsed(setting, stage)
        folder = options.out / f"{rank or 'all'}@{rate:g}"
        file = folder / "figures.json"
        if not file.exists():
            model = new_model(options.base, rank)
            steps = {"learning_rate": rate, "max_steps": options.steps}
            fit(model, stage, "", options.seed, options.data, folder, **steps)
            figures = measure(StoryEncoder.from_sentence_transformer(model), options.data)
            with atomic_write(file) as out:
                out.write(json.dumps(figures, indent=1) + "\n")
        figures = json.loads(file.read_text(encoding="utf-8"))
        cells = " | ".join(f"{figures[column]:.3f}" for column in COLUMNS)
        print(f"| {rank or 'all weights'} | {rate:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()

"""Train the default encoder of the package: the mean of the weights of three seeds, with its metrics and model card.

    python examples/train_default.py DATA --base FOLDER_OR_ID --out FOLDER

DATA is a folder of research data that can't be redistributed: `roc_with_negatives.jsonl` (five-sentence stories with
human-written distractors, for training), `roc_val.json` and `tripod_train.json` (human labels, for evaluation). The
package's own two corpora complete the training data. Finished runs are not repeated. On two CPU cores with bfloat16,
everything takes about an hour.

Each seed has two runs. One is a single epoch over three data sets, each batch from one of them: stories with narrative
twins and their distractors; stories with human distractors and dropout twins; synopses in windows. The other is two
epochs over the package's own corpora only. The weights of a seed are nine parts of the first run and one of the second,
which is as good as the first on stories and a little better on synopses.
"""

import argparse
import json
import random
import statistics
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer

from narrative_twins import StoryEncoder
from narrative_twins.data import load_story_salience, load_story_twins, load_turning_points, load_window_twins
from narrative_twins.hub.cards import encoder_card
from narrative_twins.hub.facts import EncoderFacts, Figure, read_facts
from narrative_twins.training.arguments import NarrativeTwinsTrainingArguments
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.optimizer import MasterWeightsAdamW
from narrative_twins.training.trainable import trainable_encoder
from narrative_twins.training.trainer import NarrativeTwinsTrainer

FIRST_CHANGES = {0: 80, 1: 600, 2: 250, 3: 413, 4: 1_800}
"""Maximum number of stories with human distractors, by the first sentence that the distractor changes. Nearly all
distractors change the last sentence only, which would teach an encoder little more than that the end matters."""
EPOCHS = {"all": 1, "corpora": 2}
"""The two runs of a seed, and the number of epochs of each."""
PARTS = (9, 1)
LOADING_OPTIONS = {"is_local": None, "local_files_only": None}
"""Entries of tokenizer_config.json to remove; they say how the tokenizer was loaded."""
NAMES = {
    "corpora": "on the two corpora alone",
    "all": "with human distractors too",
    "both": "one part of the former, nine of the latter",
}
COLUMNS = {
    "summarization": "rocstories_summarization_spearman",
    "AUC": "rocstories_summarization_auc",
    "deletion": "rocstories_deletion_spearman",
    "shifting": "rocstories_shifting_spearman",
    "disruption": "rocstories_disruption_spearman",
    "turning points": "tripod_summarization_auc",
    "twins of stories": "stories_accuracy",
    "of synopses": "synopses_accuracy",
}
SETTINGS = {
    "learning_rate": 5e-5,
    "warmup_steps": 0.05,
    "max_grad_norm": 0.0,
    "per_device_train_batch_size": 32,
    "window_batch_size": 8,
}
NEEDED = ("roc_with_negatives.jsonl", "roc_val.json", "tripod_train.json")
CARDS = Path(__file__).parent.parent / "hub_cards"
_STORIES = ("Five-sentence stories of ROCStories with the choices of five readers", "validation")
FIGURES = {
    "rocstories_summarization_spearman": ("Spearman of summarization", *_STORIES),
    "rocstories_summarization_auc": ("AUC of summarization", *_STORIES),
    "rocstories_deletion_spearman": ("Spearman of deletion", *_STORIES),
    "rocstories_shifting_spearman": ("Spearman of shifting", *_STORIES),
    "rocstories_disruption_spearman": ("Spearman of disruption", *_STORIES),
    "tripod_summarization_auc": ("AUC of summarization", "Turning points of 84 film synopses of TRIPOD", "train"),
    "stories_accuracy": ("Twins nearer than distractors", "Short stories of narrative_twins", "validation"),
    "synopses_accuracy": ("Twins nearer than distractors", "Synopses of narrative_twins", "validation"),
}
"""The figures in the metadata of the model card: metric, evaluation set, split."""
TABLE_NOTES = """
Summarization to disruption: Spearman with the choices of five readers, mean over 250 five-sentence stories (ROCStories,
validation), and the AUC of summarization. Turning points: AUC of summarization, mean over the five turning points of 84
film synopses (TRIPOD) in their windows, five even windows, context of 512 tokens. Twins: how often a twin is nearer to
its story (window by window for synopses) than the distractor is, on the validation splits of the two corpora. Rows of
several seeds are mean ± standard deviation. `make encoder` of the package trains and measures."""


def human_distractors(file: Path) -> Dataset:
    """Stories with human-written distractors, balanced by first changed sentence; a story may occur once for each."""
    generator = random.Random(7)
    by_first_change: dict[int, list[dict[str, list[str]]]] = {index: [] for index in FIRST_CHANGES}
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        story = row["sentences"]
        candidates: dict[int, list[list[str]]] = {}
        for negative in (distractor["sentences"] for distractor in row["negatives"]):
            changed = [i for i in range(5) if len(story) == len(negative) == 5 and trim(story[i]) != trim(negative[i])]
            if changed:
                candidates.setdefault(changed[0], []).append(negative)
        for index, negatives in candidates.items():
            by_first_change[index].append({"story": story, "negative": generator.choice(negatives)})
    for rows in by_first_change.values():
        generator.shuffle(rows)
    return Dataset.from_list([row for index, rows in by_first_change.items() for row in rows[: FIRST_CHANGES[index]]])


def trim(sentence: str) -> str:
    return sentence.strip(" .!?")


def train(base: str, kind: str, seed: int, data: Path, out: Path) -> None:
    """Train one run and save its encoder in float32."""
    # On a CPU, eager attention with dropout is faster than fused attention.
    attention = "sdpa" if torch.accelerator.is_available() else "eager"
    model = trainable_encoder(base, dtype="bfloat16", attn_implementation=attention)
    rows = {"stories": load_story_twins(split="train"), "synopses": load_window_twins(split="train")}
    if kind == "all":
        rows["human distractors"] = human_distractors(data / "roc_with_negatives.jsonl")
    trainer = NarrativeTwinsTrainer(
        model,
        NarrativeTwinsTrainingArguments(
            str(out),
            num_train_epochs=EPOCHS[kind],
            seed=seed,
            logging_steps=5,
            save_strategy="no",
            report_to="none",
            **SETTINGS,
        ),
        rows,
    )
    trainer.train()
    optimizer = trainer.optimizer.optimizer
    assert isinstance(optimizer, MasterWeightsAdamW)
    optimizer.restore()
    StoryEncoder.from_sentence_transformer(model.float()).save_pretrained(out / "encoder")


def mean_of_weights(folders: list[Path], parts: list[int]) -> StoryEncoder:
    """The mean of the weights of encoders, weighted by `parts` (Wortsman et al., 2022, "Model soups: averaging weights
    of multiple fine-tuned models improves accuracy without increasing inference time")."""
    encoders = [StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32") for folder in folders]
    states = [encoder.model.state_dict() for encoder in encoders]
    mean = {
        key: sum(part * state[key] for part, state in zip(parts, states, strict=True)) / sum(parts)
        for key, value in states[0].items()
        if value.is_floating_point()
    }
    encoders[0].model.load_state_dict(mean, strict=False)
    return encoders[0]


def save_small(encoder: StoryEncoder, folder: Path) -> None:
    """Save an encoder in float16, with a configuration that loads it in float32 by default."""
    encoder.model.half()
    encoder.save_pretrained(folder)
    for name, changes in {"config.json": {"dtype": "float32"}, "tokenizer_config.json": LOADING_OPTIONS}.items():
        settings = json.loads((folder / name).read_text(encoding="utf-8")) | changes
        kept = {key: value for key, value in settings.items() if value is not None or key not in changes}
        (folder / name).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def measure(folder: Path, data: Path) -> dict[str, float]:
    """The metrics of the encoder in a folder on human labels and on the validation splits of the corpora."""
    model = SentenceTransformer(str(folder), local_files_only=True)
    stories = load_story_salience(str(data / "roc_val.json"), "train")
    films = load_turning_points(str(data / "tripod_train.json"), "train")
    evaluators = [
        SalienceEvaluator(stories, name="rocstories", progress=True),
        SalienceEvaluator(films, operations="summarization", name="tripod", progress=True),
        TwinsEvaluator(load_story_twins(split="validation"), name="stories"),
        TwinsEvaluator(load_window_twins(split="validation"), name="synopses", batch_size=8),
    ]
    return {name: value for evaluator in evaluators for name, value in evaluator(model).items()}


def load_metrics(folder: Path, file: Path, data: Path) -> dict[str, float]:
    """The metrics of an encoder, from a file that is written on the first call."""
    if not file.exists():
        measured = measure(folder, data)
        file.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    metrics: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return metrics


def row(name: str, measured: list[dict[str, float]]) -> str:
    """A row of the table: the metrics of an encoder, or their mean and standard deviation over seeds."""
    cells = []
    for key in COLUMNS.values():
        values = [metrics[key] for metrics in measured]
        spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.3f}{spread}")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the research data")
    parser.add_argument("--base", default="sentence-transformers/all-MiniLM-L6-v2", help="the encoder to start from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    data, out = arguments.data, arguments.out
    missing = [name for name in NEEDED if not (data / name).exists()]
    if missing:
        raise SystemExit(f"no {', '.join(missing)} in {data}; this research data can't be redistributed")

    runs = {kind: [out / f"seed-{seed}-{kind}" / "encoder" for seed in arguments.seeds] for kind in (*EPOCHS, "both")}
    for kind in EPOCHS:
        for seed, folder in zip(arguments.seeds, runs[kind], strict=True):
            if not (folder / "modules.json").exists():
                train(arguments.base, kind, seed, data, folder.parent)
    for *parts, folder in zip(*(runs[kind] for kind in EPOCHS), runs["both"], strict=True):
        mean_of_weights(parts, list(PARTS)).save_pretrained(folder)
    final = out / "encoder"
    save_small(mean_of_weights(runs["both"], [1] * len(runs["both"])), final)

    lines = [f"| encoder | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines.append(row("not trained", [load_metrics(Path(arguments.base), out / "base.json", data)]))
    for kind, name in NAMES.items():
        metrics = [load_metrics(folder, folder.parent / "figures.json", data) for folder in runs[kind]]
        lines.append(row(f"{name}, {len(metrics)} seeds", metrics))
    lines.append(row("**mean of these over seeds: this encoder**", [load_metrics(final, out / "encoder.json", data)]))
    table = "\n".join(lines)
    print(table)
    write_card(final, table, load_metrics(final, out / "encoder.json", data), arguments.seeds)


def write_card(folder: Path, table: str, measured: dict[str, float], seeds: list[int]) -> None:
    """Write the model card, with the table in the text and single figures in the metadata."""
    settings = ", ".join(f"{name} {value}" for name, value in SETTINGS.items())
    facts = read_facts(EncoderFacts, CARDS / "default_encoder.yaml")
    facts.objective += f" ({settings}; linear to 0; weights in bfloat16 with float32 copies in the optimizer)"
    facts.seeds = ", ".join(map(str, seeds))
    facts.table = f"{table}\n{TABLE_NOTES}"
    facts.figures = [
        Figure(metric, round(measured[key], 3), data, split=split) for key, (metric, data, split) in FIGURES.items()
    ]
    (folder / "README.md").write_text(str(encoder_card(facts, model_id=None)), encoding="utf-8")


if __name__ == "__main__":
    main()

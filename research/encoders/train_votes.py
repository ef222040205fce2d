"""Train the default encoder: it learns to rank sentences as readers do, in three stages; and all
weights of the base encoder, five times as large, in two stages of their own (the base encoder of
the package is an adapter, which `train_adapters.py` trains). A further stage, `taught`, has the base
encoder as teacher; the default encoder of the package was trained without it.

    python research/encoders/train_votes.py DATA --base runs/twins/encoder --out runs/votes
    python research/encoders/train_votes.py DATA --stage one-pass --base runs/votes/encoder \\
        --out runs/one-pass
    python research/encoders/train_votes.py DATA --stage distilled \\
        --base runs/one-pass/encoder --out runs/distilled
    python research/encoders/train_votes.py DATA --stage base --seeds 0 \\
        --base all-mpnet-base-v2 --out runs/base-votes
    python research/encoders/train_votes.py DATA --stage base-distilled --seeds 0 \\
        --base runs/base-votes/encoder --out runs/base
    python research/encoders/train_votes.py DATA --stage taught --seeds 0 1 \\
        --teacher runs/base-votes/encoder --base runs/distilled/encoder --out runs/taught

Many training data are in the package: stories, their distractors, everyday stories and prose with
votes that a language model judged, synopses with the turning points that their writer intended, and
narrative twins, which keep plots apart. `prose_texts.jsonl` has texts with marks of the same kind.
For passages of public-domain tales, of film plots (CC BY-SA) and of summaries (CC BY), for stories
of ROCStories and for the turning points of film plots, marks and votes are in this folder, and the
text is in DATA. Summaries of works that other people summed up too are labelled by what those kept.

Each batch is of one data set. In the first stage, scores are exact: summarization learns from all
stories, and a part of them trains all four operations, which need seven times the text. In the
second, most batches train summarization in one pass, which reads each text once, so passages of up
to 60 sentences are affordable. In the third, one pass also learns from texts that nobody judged, by
the scores of the second stage's encoder (`distilled.py`), and in `taught`, both forms learn by the
scores of the base encoder. In `base-distilled`, the base encoder learns its scores of both forms,
and scores of the default encoder where they are better, on film plots. The encoder of a stage has the
mean of the weights of its seeds and of the encoder that it started from.

DATA is a folder of research data that can't be redistributed: `fairytaleqa.jsonl`,
`folktale_twins.jsonl`, `retellings_wiki.jsonl`, `roc_stories.jsonl`, `squality_plot_twins.jsonl`
and `wiki_film_plots.jsonl`, and for evaluation `roc_val.json` and `tripod_train.json` with human
labels. Stories of ROCStories, and works that were summed up, are measured in halves, by a hash of
their ids: the first was used to choose the settings, the second was not. Finished runs are not
repeated. A seed takes about 20 minutes on two CPU cores, of the base encoder an hour.
"""

import argparse
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from averaging import mean_of_weights, save_small
from datasets import Dataset, concatenate_datasets
from distilled import distilled_plots, distilled_stories, distilled_tales, saved
from judged import judged_films, judged_passages, judged_stories
from measuring import (
    COLUMNS,
    HALVES_NOTES,
    ONE_PASS,
    PROSE,
    check_data,
    heading,
    load_metrics,
    of_half,
    row,
    summaries,
    write_card,
)

from narrative_twins import StoryEncoder, default_encoder
from narrative_twins.data import load_story_salience, load_story_twins, load_window_twins
from narrative_twins.training.salience_loss import SalienceLoss
from narrative_twins.training.trainer import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    trainable_encoder,
)

WEIGHTS = {"summarization": 1.0, "deletion": 1.0, "shifting": 0.5, "disruption": 0.25}
"""The weight of each operation, where all are trained."""
MAX_SHIFTS = 2
LONGEST = 14
"""Maximum number of sentences of a passage for exact scores."""
SPREAD_TEMPERATURE = 0.2
"""Marks of prose, and labels of summaries, are spread over more sentences than votes are."""
ROWS = {
    "votes": {
        "operations": 480,
        "votes": 2_400,
        "prose": 576,
        "turning points": 96,
        "twins": 400,
        "window twins": 96,
    },
    "one-pass": {
        "operations": 160,
        "votes": 400,
        "prose": 96,
        "turning points": 32,
        "film plots": 32,
        "twins": 480,
        "window twins": 96,
        "one pass: votes": 4_400,
        "one pass: prose": 1_400,
        "one pass: turning points": 300,
        "one pass: film plots": 480,
        "one pass: summaries": 260,
    },
    "base": {
        "operations": 96,
        "votes": 480,
        "twins": 320,
        "window twins": 32,
        "one pass: votes": 8_800,
        "one pass: prose": 800,
        "one pass: turning points": 64,
        "one pass: film plots": 320,
        "one pass: summaries": 240,
    },
    "base-distilled": {
        "votes": 160,
        "distilled stories": 320,
        "twins": 320,
        "window twins": 64,
        "one pass: votes": 960,
        "one pass: distilled stories": 1_920,
        "one pass: prose": 64,
        "one pass: distilled tales": 64,
        "one pass: turning points": 96,
        "one pass: film plots": 96,
        "one pass: distilled plots": 96,
        "one pass: summaries": 64,
    },
    "distilled": {
        "operations": 128,
        "votes": 640,
        "turning points": 32,
        "film plots": 32,
        "twins": 640,
        "window twins": 160,
        "one pass: votes": 3_200,
        "one pass: distilled stories": 4_800,
        "one pass: prose": 720,
        "one pass: turning points": 240,
        "one pass: film plots": 400,
        "one pass: distilled plots": 400,
        "one pass: summaries": 200,
    },
    "taught": {
        "operations": 96,
        "votes": 320,
        "distilled stories": 1_280,
        "turning points": 32,
        "film plots": 32,
        "twins": 640,
        "window twins": 128,
        "one pass: votes": 1_600,
        "one pass: distilled stories": 4_800,
        "one pass: prose": 480,
        "one pass: distilled tales": 320,
        "one pass: turning points": 160,
        "one pass: film plots": 240,
        "one pass: distilled plots": 160,
        "one pass: summaries": 200,
    },
    "adapter-base": {
        "votes": 560,
        "twins": 320,
        "window twins": 32,
        "one pass: votes": 8_800,
        "one pass: prose": 640,
        "one pass: turning points": 64,
        "one pass: film plots": 320,
        "one pass: summaries": 160,
    },
    "adapter-base-distilled": {
        "votes": 160,
        "distilled stories": 320,
        "twins": 320,
        "window twins": 64,
        "one pass: votes": 960,
        "one pass: distilled stories": 1_920,
        "one pass: prose": 64,
        "one pass: distilled tales": 64,
        "one pass: turning points": 64,
        "one pass: film plots": 96,
        "one pass: distilled plots": 96,
        "one pass: summaries": 64,
    },
    "adapter-english": {
        "operations": 48,
        "votes": 800,
        "twins": 480,
        "window twins": 64,
        "one pass: votes": 8_000,
        "one pass: prose": 480,
        "one pass: turning points": 64,
        "one pass: film plots": 240,
        "one pass: summaries": 160,
    },
    "adapter-translations": {
        "votes": 96,
        "distilled stories": 160,
        "window twins": 32,
        "one pass: votes": 320,
        "one pass: distilled stories": 480,
        "one pass: prose": 64,
        "one pass: turning points": 16,
        "one pass: film plots": 32,
    },
}
"""By stage, rows of each data set a seed; those of adapters are trained by `train_adapters.py`."""
LABELLED = {
    "distilled": {"stories": 12_000, "plots": 520},
    "taught": {"stories": 5_000, "plots": 240, "tales": 400},
    "base-distilled": {"stories": 5_000, "plots": 240, "tales": 400},
    "adapter-base-distilled": {"stories": 3_000, "plots": 160, "tales": 160},
    "adapter-translations": {"stories": 3_000},
}
"""By stage, how many texts an encoder labels."""
MOST_AT_A_PLACE = {"votes": 800, "distilled": 1_400}
"""Of the stories of ROCStories with votes, and with labels of the encoder, how many may have their
most important sentence at the same place: for both it is the last one more often than for people,
and an encoder that reads each text once learns places easily."""
ENCODERS = {
    "votes": ("of twins", "with votes"),
    "one-pass": ("with votes", "in one pass too"),
    "distilled": ("in one pass too", "distilled"),
    "taught": ("distilled", "taught by the base encoder"),
}
"""By stage, what the tables call the encoder it starts from, and those of its seeds."""
TAUGHT = (
    ". After these stages, the encoder was trained by the exact and one-pass scores of the base"
    " encoder on 5,000 stories of ROCStories and 400 passages of tales, with its own scores of 240"
    " film plots, and smaller parts of the data above"
)
"""What the card of `taught` adds to the objectives of the default encoder."""
BASE_PART = {
    "votes": 1.0,
    "one-pass": 0.25,
    "distilled": 0.25,
    "taught": 0.25,
    "base": 0.0,
    "base-distilled": 0.25,
}
"""Part of the encoder that a stage starts from in the mean of the weights, in which each seed has
one part. It gives back some of what votes cost: twins that are nearer than distractors (Wortsman
et al., 2022, "Robust fine-tuning of zero-shot models")."""
RATES = {
    "votes": 3e-5,
    "one-pass": 5e-5,
    "distilled": 4e-5,
    "taught": 4e-5,
    "base": 3e-5,
    "base-distilled": 2e-5,
}
"""By stage, the learning rate."""
SETTINGS = {
    "warmup_steps": 0.1,
    "num_train_epochs": 1,
    "per_device_train_batch_size": 16,
    "window_batch_size": 8,
}
LARGE = {"warmup_steps": 0.05, "save_strategy": "steps", "save_steps": 100, "save_total_limit": 1}
"""What differs for the base encoder, whose run takes long: it is saved, and continued."""
PIECES = {
    "base": {"prose": 12, "film plots": 12, "summaries": 12},
    "base-distilled": {
        "prose": 12,
        "summaries": 12,
        "distilled tales": 16,
        "film plots": 70,
        "distilled plots": 70,
    },
    **dict.fromkeys(
        ("adapter-base", "adapter-english", "adapter-translations"),
        {"prose": 12, "film plots": 24, "summaries": 12},
    ),
    "adapter-base-distilled": {
        "prose": 12,
        "summaries": 12,
        "distilled tales": 16,
        "film plots": 40,
        "distilled plots": 40,
    },
}
"""By stage of larger encoders, the maximum number of sentences of a piece of a text: the time and
memory of attention grow with the square of the length. Pieces are in batches of texts with windows,
which are smaller."""


def data_sets(stage: str, teacher: str, seed: int, data: Path, out: Path) -> dict[str, Dataset]:
    """The training data of a stage and seed; texts that an encoder labels are kept in `out`."""
    counts = ROWS[stage]
    everyday = load_story_salience(split="train", name="everyday")
    stories = load_story_salience(split="train", distractors=True)
    packaged = [rows.select_columns(["story", "counts"]) for rows in (everyday, stories)]
    of_people = Dataset.from_list(
        balanced(judged_stories(data), "counts", MOST_AT_A_PLACE["votes"]),
        features=packaged[0].features,
    )
    votes = concatenate_datasets([*packaged, of_people])
    votes = votes.shuffle(seed)
    prose = list(
        load_story_salience(split="train", name="prose").select_columns(["story", "labels"])
    )
    prose += judged_passages(data, held_out=False)
    short = [row for row in prose if len(row["story"]) <= LONGEST]
    plots = Dataset.from_list(judged_films(data)).shuffle(seed)
    synopses = load_window_twins(split="train").shuffle(seed)
    turning_points = synopses.select_columns(["story", "turning_points"])
    found = {
        "operations": votes,
        "votes": votes.skip(counts.get("operations", 0)),
        "prose": Dataset.from_list(short).shuffle(seed),
        "turning points": turning_points,
        "film plots": plots,
        "twins": load_story_twins(split="train").shuffle(seed),
        "window twins": synopses,
        "one pass: votes": votes,
        "one pass: prose": Dataset.from_list(prose).shuffle(seed),
        "one pass: turning points": turning_points,
        "one pass: film plots": plots,
        "one pass: summaries": Dataset.from_list(labelled_summaries(data)).shuffle(seed),
    }
    if stage in LABELLED:
        found |= labelled_texts(stage, teacher, seed, data, out)
    for name, longest in PIECES.get(stage, {}).items():
        found[f"one pass: {name}"] = pieces(found[f"one pass: {name}"], longest).shuffle(seed)
    return {name: found[name].take(min(len(found[name]), count)) for name, count in counts.items()}


def labelled_texts(
    stage: str, teacher: str, seed: int, data: Path, out: Path
) -> dict[str, Dataset]:
    """The data sets that the teacher labels; but where that is the base encoder, film plots are
    labelled by the default encoder, which agrees better with turning points."""
    makers = {"stories": distilled_stories, "plots": distilled_plots, "tales": distilled_tales}
    found, default = {}, str(default_encoder())
    for of, count in LABELLED[stage].items():
        labeller = default if of == "plots" and stage != "distilled" else teacher
        rows = saved(out / f"{of}.json", partial(makers[of], labeller, data, count))
        if of == "stories":
            rows = balanced(rows, "labels", MOST_AT_A_PLACE["distilled"])
        found[f"one pass: distilled {of}"] = Dataset.from_list(rows).shuffle(seed)
    return found | {"distilled stories": found["one pass: distilled stories"]}


def pieces(rows: Dataset, longest: int) -> Dataset:
    """Passages cut into pieces that have a label, each a story of one window, whose batches are
    smaller."""
    cut = []
    for story, labels in zip(rows["story"], rows["labels"], strict=True):
        for start in range(0, len(story), longest):
            piece = slice(start, start + longest)
            if len(story[piece]) > 2 and len(set(labels[piece])) > 1:
                cut.append({"story": [story[piece]], "labels": labels[piece]})
    return Dataset.from_list(cut)


def balanced(rows: list[dict[str, list]], column: str, most: int) -> list[dict[str, list]]:
    """Rows with votes or labels, at most so many that have the highest at the same place."""
    seen: Counter[int] = Counter()
    kept = []
    for judged in rows:
        place = int(np.argmax(judged[column]))
        seen[place] += 1
        if seen[place] <= most:
            kept.append(judged)
    return kept


def labelled_summaries(data: Path) -> list[dict[str, Any]]:
    """Summaries of the half of the works that settings are chosen by. Labels, which vary little
    within a summary, become shares by softmax of their z-scores."""
    rows = summaries(data, held_out=False)
    labels = [torch.tensor(row["labels"]) for row in rows]
    return [
        {"story": row["story"], "labels": ((own - own.mean()) / own.std()).exp().tolist()}
        for row, own in zip(rows, labels, strict=True)
    ]


def losses(model: Any) -> dict[str, SalienceLoss]:
    """The losses of the data sets with judgments; twins have the default."""

    def summarization(**options: Any) -> SalienceLoss:
        return SalienceLoss(model, "summarization", **options)

    spread: dict[str, Any] = {"temperature": SPREAD_TEMPERATURE, "across_windows": True}
    return {
        "operations": SalienceLoss(model, WEIGHTS, max_shifts=MAX_SHIFTS),
        "votes": summarization(),
        "distilled stories": summarization(),
        "prose": summarization(**spread),
        "turning points": summarization(),
        "film plots": summarization(),
        "one pass: votes": summarization(approximate="one-pass"),
        "one pass: prose": summarization(**spread, approximate="one-pass"),
        "one pass: turning points": summarization(approximate="one-pass"),
        "one pass: film plots": summarization(approximate="one-pass"),
        "one pass: summaries": summarization(**spread, approximate="one-pass"),
        "one pass: distilled stories": summarization(approximate="one-pass"),
        "one pass: distilled plots": summarization(approximate="one-pass"),
        "one pass: distilled tales": summarization(approximate="one-pass"),
    }


def train(stage: str, base: str, teacher: str, seed: int, data: Path, out: Path) -> None:
    """Train a stage with a seed and save its encoder."""
    model = trainable_encoder(base)
    settings = SETTINGS | {"learning_rate": RATES[stage], "save_strategy": "no"}
    if stage in PIECES:
        settings |= LARGE
    if stage == "base-distilled":  # whose texts are longer
        settings |= {"window_batch_size": 4}
    if stage != "votes":
        settings = settings | {"bf16": True, "use_cpu": not torch.cuda.is_available()}
        for module in model.modules():
            # Dropout of attention weights doubles the time of long texts on a CPU.
            if type(module).__name__.endswith("SelfAttention"):
                module.dropout.p = 0.0
    arguments = NarrativeTwinsTrainingArguments(
        str(out), seed=seed, logging_steps=10, report_to="none", **settings
    )
    rows = data_sets(stage, teacher, seed, data, out.parent)
    loss = {name: value for name, value in losses(model).items() if name in rows}
    trainer = NarrativeTwinsTrainer(model, arguments, rows, loss=loss)
    trainer.train(resume_from_checkpoint=any(out.glob("checkpoint-*")) or None)
    StoryEncoder.from_sentence_transformer(model).save_pretrained(out / "encoder")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of the research data")
    parser.add_argument("--stage", choices=RATES, default="votes")
    parser.add_argument(
        "--base", required=True, help="the encoder to start from, a folder or Hub id"
    )
    parser.add_argument(
        "--teacher",
        help="labels texts for the stages that need labels (default: the encoder of --base)",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    data, out = arguments.data, arguments.out
    teacher = arguments.teacher or arguments.base
    check_data(
        data,
        "fairytaleqa.jsonl",
        "folktale_twins.jsonl",
        "retellings_wiki.jsonl",
        "roc_stories.jsonl",
        "squality_plot_twins.jsonl",
        "wiki_film_plots.jsonl",
    )

    folders = [out / f"seed-{seed}" / "encoder" for seed in arguments.seeds]
    for seed, folder in zip(arguments.seeds, folders, strict=True):
        if not (folder / "modules.json").exists():
            start = time.monotonic()
            train(arguments.stage, arguments.base, teacher, seed, data, folder.parent)
            print(f"seed {seed}: {(time.monotonic() - start) / 60:.0f} minutes", flush=True)
    part = BASE_PART[arguments.stage]
    final = out / "encoder"
    save_small(
        mean_of_weights([*folders, Path(arguments.base)], [1] * len(folders) + [part]), final
    )
    if arguments.stage not in PIECES:  # which `which.py` measures
        report(arguments.stage, arguments.base, folders, final, data, arguments.seeds)


def report(
    stage: str, base: str, folders: list[Path], final: Path, data: Path, seeds: list[int]
) -> None:
    """Measure the encoders, print tables for each half of the stories, exact scores and those in
    one pass, and write the model card."""
    out = final.parent
    start, trained = ENCODERS[stage]
    after = load_metrics(final, out / "encoder.json", data, halves=True)
    measured = {
        start: [load_metrics(Path(base), out / "base.json", data, halves=True)],
        f"{trained}, {len(seeds)} seeds": [
            load_metrics(folder, folder.parent / "figures.json", data, True, stage == "votes")
            for folder in folders
        ],
        "**mean of all these: this encoder**": [after],
    }
    tables = []
    for half, title in {
        "chosen": "Settings were chosen by these stories",
        "reported": "And not by these",
    }.items():
        for form, columns in {"": COLUMNS | PROSE, ", in one pass": ONE_PASS}.items():
            rows = [
                row(name, [of_half(metrics, half) for metrics in found], columns)
                for name, found in measured.items()
            ]
            tables.append("\n".join([f"{title}{form}:", "", *heading(columns), *rows]))
    table = "\n\n".join(tables)
    print(table)
    rates = [rate for of, rate in RATES.items() if of not in PIECES]
    used = {"learning_rate": " and ".join(map(str, rates)), **SETTINGS}
    settings = ", ".join(f"{name} {value}" for name, value in used.items())
    write_card(
        final,
        "default_encoder.yaml",
        f"{table}\n{HALVES_NOTES}",
        of_half(after, "reported"),
        objective=f"{TAUGHT if stage == 'taught' else ''} ({settings})",
        seeds=", ".join(map(str, seeds)),
    )


if __name__ == "__main__":
    main()

"""The metrics of the default encoder, its table and its model card."""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datasets import Dataset
from judged import is_held_out, judged_passages
from retold_stories import labelled
from sentence_transformers import SentenceTransformer
from triples import triples

from narrative_twins.data import (
    load_story_salience,
    load_story_twins,
    load_turning_points,
    load_window_twins,
)
from narrative_twins.encoder.loading import PACKAGED
from narrative_twins.hub.cards import encoder_card
from narrative_twins.hub.facts import EncoderFacts, Figure, read_facts
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator

NEEDED = ("roc_val.json", "tripod_train.json")
"""Human labels, for evaluation."""
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
PROSE = {"tales": "tales_summarization_spearman", "triples": "triples_accuracy"}
"""Further columns: passages of tales that training with votes holds out, and `triples.py`."""
ONE_PASS = {
    "summarization": "one_pass_rocstories_summarization_spearman",
    "AUC": "one_pass_rocstories_summarization_auc",
    "deletion": "one_pass_rocstories_deletion_spearman",
    "disruption": "one_pass_rocstories_disruption_spearman",
    "turning points": "one_pass_tripod_summarization_auc",
    "tales": "one_pass_tales_summarization_spearman",
    "summaries": "one_pass_squality_summarization_spearman",
}
"""The same in one pass, and plot summaries with the labels of `research/encoders/retold_stories.py`."""
CARDS = Path(__file__).parents[2] / "hub_cards"
_STORIES = (
    "Five-sentence stories of ROCStories with the choices of three to five readers",
    "validation",
)
FIGURES = {
    "rocstories_summarization_spearman": ("Spearman of summarization", *_STORIES),
    "rocstories_summarization_auc": ("AUC of summarization", *_STORIES),
    "rocstories_deletion_spearman": ("Spearman of deletion", *_STORIES),
    "rocstories_shifting_spearman": ("Spearman of shifting", *_STORIES),
    "rocstories_disruption_spearman": ("Spearman of disruption", *_STORIES),
    "tripod_summarization_auc": (
        "AUC of summarization",
        "Turning points of 84 film synopses of TRIPOD",
        "train",
    ),
    "stories_accuracy": (
        "Twins nearer than distractors",
        "Short stories of narrative_twins",
        "validation",
    ),
    "synopses_accuracy": (
        "Twins nearer than distractors",
        "Synopses of narrative_twins",
        "validation",
    ),
    "tales_summarization_spearman": (
        "Spearman of summarization",
        "Passages of fairy tales with marks of a language model",
        None,
    ),
    "one_pass_rocstories_summarization_spearman": (
        "Spearman of summarization, one pass",
        *_STORIES,
    ),
    "one_pass_rocstories_summarization_auc": ("AUC of summarization, one pass", *_STORIES),
    "one_pass_rocstories_deletion_spearman": ("Spearman of deletion, one pass", *_STORIES),
    "one_pass_rocstories_disruption_spearman": ("Spearman of disruption, one pass", *_STORIES),
    "one_pass_tripod_summarization_auc": (
        "AUC of summarization, one pass",
        "Turning points of 84 film synopses of TRIPOD",
        "train",
    ),
    "one_pass_tales_summarization_spearman": (
        "Spearman of summarization, one pass",
        "Passages of fairy tales with marks of a language model",
        None,
    ),
    "one_pass_squality_summarization_spearman": (
        "Spearman of summarization, one pass",
        "Plot summaries of SQuALITY with what other summaries keep",
        None,
    ),
}
"""The figures in the metadata of the model card, as far as they are measured: metric, evaluation
set, split."""
_NOTES = """
Summarization to disruption: Spearman with the choices of three to five readers, mean over {stories} five-sentence
stories (ROCStories, validation), and the AUC of summarization. Turning points: AUC of summarization, mean over the five turning
points of 84 film synopses (TRIPOD) in their windows, five even windows, context of 512 tokens. Twins: how often a twin
is nearer to its story (window by window for synopses) than the distractor is, on the validation splits of the two
corpora. Rows of several seeds are mean ± standard deviation. `make {target}` of the package trains and measures."""
_PROSE_NOTES = """
Tales: Spearman of summarization with the marks of a language model on 97 passages of fairy tales, whose works were held
out. Triples: how often a text is nearer to another person's version of it than to the text of another story with the
most similar words (`triples.py`). Summaries: the same as for tales on 260 and 242 plot summaries (SQuALITY) with how
much of a sentence other people's summaries keep; the first 260 are training data of the last two stages. Settings were
also chosen by the films and the tales, and for the stage of twins by all stories."""
TWINS_NOTES = _NOTES.format(stories=250, target="encoder-twins")
HALVES_NOTES = _NOTES.format(stories="123 and 127", target="encoder") + _PROSE_NOTES
"""Of tables of the two halves of the stories, which `half` makes."""
LARGE = 150_000_000
"""Bytes of weights above which an encoder is scored in bfloat16."""
HALVES = {"chosen": False, "reported": True}
"""By name: of 250 labelled stories, 123 that the settings were chosen by, and 127 that no choice
saw."""


def check_data(data: Path, *more: str) -> None:
    """End the program if research data is missing."""
    missing = [name for name in (*more, *NEEDED) if not (data / name).exists()]
    if missing:
        raise SystemExit(
            f"no {', '.join(missing)} in {data}; this research data can't be redistributed"
        )


def precision(folder: str) -> str:
    """Large encoders in a folder are scored in bfloat16, which takes half the time; the agreement on
    stories differs by 0.002 at most. Others, and models of the Hub, are scored in float32."""
    weights = Path(folder) / "model.safetensors"
    return "bfloat16" if weights.exists() and weights.stat().st_size > LARGE else "float32"


def half(rows: Dataset, held_out: bool) -> Dataset:
    """The labelled stories that settings are chosen by, or those that are held out."""
    return rows.filter(lambda id_: is_held_out(id_) == held_out, input_columns="id")


def measure(folder: Path, data: Path, halves: bool = False, exact: bool = True) -> dict[str, float]:
    """The metrics of the encoder in a folder on human labels, and on the validation splits of the
    corpora. With `halves`, those of stories are for each half by itself, with its name as prefix,
    passages of tales are measured too, and all of these, and plot summaries, also in one pass;
    without `exact`, only so, which takes a tenth of the time."""
    model = SentenceTransformer(str(folder), local_files_only=True)
    stories = load_story_salience(str(data / "roc_val.json"), "train")
    films = load_turning_points(str(data / "tripod_train.json"), "train")
    by_half = {f"{name}_": half(stories, held_out) for name, held_out in HALVES.items()}
    scored: dict[str, Any] = {
        f"{prefix}rocstories": rows
        for prefix, rows in (by_half if halves else {"": stories}).items()
    }
    summarized: dict[str, Any] = {"tripod": films}
    one_pass: dict[str, Any] = {}
    if halves:
        summarized["tales"] = judged_passages(data, held_out=True)
        one_pass = {f"{prefix}one_pass_rocstories": rows for prefix, rows in by_half.items()}
        one_pass |= {f"one_pass_{name}": rows for name, rows in summarized.items()}
        one_pass |= {
            f"{name}_one_pass_squality": summaries(data, held_out)
            for name, held_out in HALVES.items()
        }
    if not exact:
        scored, summarized = {}, {}
    evaluators = [
        *(SalienceEvaluator(rows, name=name) for name, rows in scored.items()),
        *(
            SalienceEvaluator(rows, operations="summarization", name=name)
            for name, rows in summarized.items()
        ),
        *(
            SalienceEvaluator(rows, approximate="one-pass", name=name)
            for name, rows in one_pass.items()
        ),
        TwinsEvaluator(load_story_twins(split="validation"), name="stories"),
        TwinsEvaluator(load_window_twins(split="validation"), name="synopses", batch_size=8),
    ]
    if halves:
        evaluators.append(TwinsEvaluator(triples(data), name="triples", batch_size=8))
    return {name: value for evaluator in evaluators for name, value in evaluator(model).items()}


def summaries(data: Path, held_out: bool) -> list[dict[str, Any]]:
    """Plot summaries, labelled by how much of a sentence other people's summaries keep."""
    lines = (data / "squality_plot_twins.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if is_held_out(row["id"]) == held_out]
    return [telling for row in rows for telling in labelled(row)]


def load_metrics(
    folder: Path, file: Path, data: Path, halves: bool = False, exact: bool = True
) -> dict[str, float]:
    """The metrics of an encoder, see `measure`, from a file that is written on the first call."""
    if not file.exists():
        measured = measure(folder, data, halves, exact)
        file.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    metrics: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return metrics


def of_half(measured: dict[str, float], name: str) -> dict[str, float]:
    """The metrics with those of a half of the stories as if it were all of them."""
    prefix = f"{name}_"
    return {key.removeprefix(prefix): value for key, value in measured.items()}


def heading(columns: Mapping[str, str] = COLUMNS, rows: str = "encoder") -> list[str]:
    return [f"| {rows} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]


def row(name: str, measured: list[dict[str, float]], columns: Mapping[str, str] = COLUMNS) -> str:
    """A row of the table: the metrics of an encoder, or their mean and standard deviation over
    seeds; empty where they are not measured."""
    cells = []
    for key in columns.values():
        values = [metrics[key] for metrics in measured if key in metrics]
        if not values:
            cells.append("")
            continue
        spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.3f}{spread}")
    return f"| {name} | {' | '.join(cells)} |"


def write_card(
    folder: Path, facts_file: str, table: str, measured: dict[str, float], **facts: str
) -> None:
    """Write the model card, with the table in the text and single figures in the metadata; `facts`
    are added to those of the file."""
    known = read_facts(EncoderFacts, CARDS / facts_file)
    for name, more in facts.items():
        setattr(
            known, name, more if getattr(known, name) == "unknown" else getattr(known, name) + more
        )
    known.table = table
    known.figures = [
        Figure(metric, round(measured[key], 3), name, split=split)
        for key, (metric, name, split) in FIGURES.items()
        if key in measured
    ]
    name = facts_file.removesuffix("_encoder.yaml")
    card = encoder_card(known, packaged_as=name if name in PACKAGED else None)
    (folder / "README.md").write_text(str(card), encoding="utf-8")

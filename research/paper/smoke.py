"""What a smoke test is made from: every run of a plan, trained for two steps from a small encoder of
random weights, and people and language models that choose at random. The steps are so large that
the figures of runs differ."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import torch
from plan import CurvesSpec, Plan, SizesSpec
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from narrative_twins import StorySalience
from narrative_twins.data import load_story_twins, load_window_twins
from narrative_twins.data.sources import corpus_files
from narrative_twins.encoder.loading import default_encoder
from narrative_twins.evaluation.labelled_stories import LabelledStories
from narrative_twins.prompting.question_styles import STYLES
from narrative_twins.show.formats import write_results
from narrative_twins.stories.story import Story
from narrative_twins.training import reports

STORIES = {"stories": 8, "synopses": 3}
"""How many labelled stories a smoke test is measured on."""


def smoke_plan(plan: Plan) -> Plan:
    """The same plan with only the first two seeds of each run."""
    return replace(
        plan, runs={name: replace(run, seeds=run.seeds[:2]) for name, run in plan.runs.items()}
    )


def train_smoke_runs(plan: Plan, folder: Path, report: Callable[[str], None]) -> None:
    """Train the runs of a plan that are not yet in a folder. Raises `RuntimeError` with the log
    file if one fails."""
    # The encoder is so small that several threads would only wait for each other.
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    encoder = folder / "encoder"
    if not encoder.is_dir():
        with _whole_folder(encoder) as part:
            _make_encoder(part)
    synopses = {row.name for table in plan.tables if table.data == "synopses" for row in table.rows}
    kinds = CurvesSpec | SizesSpec
    shown = [figure.runs.values() for figure in plan.figures if isinstance(figure, kinds)]
    validated = {name for names in shown for name in names}
    jobs = [
        (run, seed, run.folder(folder, seed)) for run in plan.runs.values() for seed in run.seeds
    ]
    missing = [job for job in jobs if not job[2].is_dir()]
    for number, (run, seed, place) in enumerate(missing, start=1):
        report(f"smoke run {number} of {len(missing)}: {place.name}")
        kind = "synopses" if run.name in synopses else "stories"
        flags = [*run.flags, "--seed", seed, "--encoder", encoder]
        if "entities" in run.name:
            flags += ["--train_source", _rows_with_other_names(kind, folder)]
        # Encoders as they come are not trained.
        flags += ["--max_steps", -1 if run.settings.get("num_train_epochs") == 0 else 2]
        # Validation takes most of the time.
        flags += ["--eval_on_start", "true"] if run.name in validated else ["--eval_strategy", "no"]
        with _whole_folder(place) as part:
            _train(run.script, flags, kind, part, folder / f"{place.name}.log")


def with_people(labelled: LabelledStories) -> LabelledStories:
    """Labelled stories with the votes of two groups of people who choose at random; synopses as
    they are."""
    if labelled.points is not None:
        return labelled
    random = Random(0)

    def votes(story: Story) -> list[list[float]]:
        chosen = [random.randrange(len(story)) for _ in range(3)]
        return [[float(i == number) for i in range(len(story))] for number in chosen]

    annotations = [votes(story) for story in labelled.stories]
    second = [
        [sum(column) for column in zip(*votes(story), strict=True)] for story in labelled.stories
    ]
    return replace(labelled, annotations=annotations, second=second)


def make_smoke_results(plan: Plan, labelled: Mapping[str, LabelledStories], folder: Path) -> None:
    """Write the results of the language models of a plan, with random scores."""
    for prompted in plan.results.values():
        for file in prompted.files(folder):
            random = Random(file.name)
            results = [
                StorySalience(
                    story,
                    {
                        STYLES[name].score: [random.random() for _ in story.sentences]
                        for name in prompted.styles
                    },
                    index=i,
                )
                for i, story in enumerate(labelled[prompted.data].stories)
            ]
            file.write_text("".join(write_results(results, "jsonl")))


@contextlib.contextmanager
def _whole_folder(path: Path) -> Iterator[Path]:
    """A folder to write into, which gets its name when it is complete."""
    part = path.with_name(f"{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    yield part
    part.rename(path)


def _make_encoder(folder: Path) -> None:
    """A BERT of two layers, with the tokenizer of the default encoder."""
    tokenizer = AutoTokenizer.from_pretrained(default_encoder())
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    # Large weights, so that the vectors of stories differ.
    config = BertConfig(vocab_size=len(tokenizer), initializer_range=0.5, **sizes)
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stderr(nowhere),
    ):  # a progress bar
        BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _rows_with_other_names(kind: str, folder: Path) -> Path:
    """Some rows of the package's corpus in whose twins other words stand for what may be a name."""
    load = load_window_twins if kind == "synopses" else load_story_twins
    path = folder / f"{kind}-other-names.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row in load(split="train[:8]"):
            twin = [re.sub(r"(?<=[a-z] )[A-Z]\w+", "Somebody", text) for text in row["twin"]]
            file.write(json.dumps({**row, "twin": twin}) + "\n")
    return path


def _train(script: Path, flags: list[Any], kind: str, folder: Path, log: Path) -> None:
    """Run a training script in this process, which saves its imports."""
    has_synopses = kind == "synopses"
    flags = [*flags, "--smoke", "--use_cpu", "--save_strategy", "no", "--output_dir", folder]
    flags += ["--learning_rate", "0.03", "--lr_scheduler_type", "constant"]
    # Labels to validate on; synopses have their own.
    if not has_synopses:
        flags += ["--salience_source", corpus_files("stories")["validation"][0]]
    # Synopses are longer.
    sizes = (4, 1, 2) if has_synopses else (8, 2, 4)
    names = ("max_train_rows", "max_eval_rows", "per_device_train_batch_size")
    flags += [f"--{name}={size}" for name, size in zip(names, sizes, strict=True)]
    argv = [str(part) for part in (script, *flags)]
    # Warnings about so small an encoder would hide what else is reported.
    logging.disable(logging.WARNING)
    try:
        with open(log, "w", encoding="utf-8") as file, mock.patch.object(sys, "argv", argv):
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                # Plots of the curves of each run would take as long again.
                with mock.patch.object(reports, "plot_curves"):
                    runpy.run_path(argv[0], run_name="__main__")
    except (Exception, SystemExit) as error:
        raise RuntimeError(
            f"the smoke run {folder.stem} failed ({error}); its output is in {log}"
        ) from error
    finally:
        logging.disable(logging.NOTSET)

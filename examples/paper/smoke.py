"""Runs of a smoke test: every run of a plan, trained for two steps from a small encoder of random
weights."""

from __future__ import annotations

import contextlib
import logging
import os
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import torch
from plan import Plan, Run
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from narrative_twins.data.sources import corpus_files
from narrative_twins.encoder.loading import default_encoder

STORIES = {"stories": 8, "synopses": 3}
"""How many labelled stories a smoke test is measured on."""


def smoke_plan(plan: Plan) -> Plan:
    """The same plan with only the first seed of each run."""
    return replace(
        plan, runs={name: replace(run, seeds=run.seeds[:1]) for name, run in plan.runs.items()}
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
    missing = [run for run in plan.runs.values() if not run.folder(folder, run.seeds[0]).is_dir()]
    for number, run in enumerate(missing, start=1):
        report(f"smoke run {number} of {len(missing)}: {run.name}")
        with _whole_folder(run.folder(folder, run.seeds[0])) as part:
            _train(run, run.name in synopses, encoder, part, folder / f"{run.name}.log")


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
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # a progress bar
        BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _train(run: Run, has_synopses: bool, encoder: Path, folder: Path, log: Path) -> None:
    """Run a training script in this process, which saves its imports."""
    # Labels to validate on; synopses have their own.
    labels = [] if has_synopses else ["--salience_source", corpus_files("stories")["validation"][0]]
    flags = [
        "--config",
        run.config,
        "--smoke",
        "--use_cpu",
        "--encoder",
        encoder,
        "--output_dir",
        folder,
        *labels,
    ]
    flags += ["--seed", run.seeds[0], "--max_steps", 2, "--save_strategy", "no"]
    # Synopses are longer.
    sizes = (4, 1, 2, 2) if has_synopses else (8, 2, 4, 1)
    names = ("max_train_rows", "max_eval_rows", "per_device_train_batch_size", "eval_steps")
    flags += [f"--{name}={size}" for name, size in zip(names, sizes, strict=True)]
    argv = [str(part) for part in (run.script, *flags)]
    # Warnings about so small an encoder would hide what else is reported.
    logging.disable(logging.WARNING)
    try:
        with open(log, "w", encoding="utf-8") as file, mock.patch.object(sys, "argv", argv):
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                runpy.run_path(argv[0], run_name="__main__")
    except (Exception, SystemExit) as error:
        raise RuntimeError(
            f"the smoke run {run.name} failed ({error}); its output is in {log}"
        ) from error
    finally:
        logging.disable(logging.NOTSET)

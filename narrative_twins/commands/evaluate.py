"""`narrative-twins evaluate`: compares encoders and baselines by agreement with human labels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import click

from narrative_twins.commands.encoder_options import EncoderOptions
from narrative_twins.commands.messages import on_interrupt, shows_progress
from narrative_twins.commands.scoring_options import scoring_options
from narrative_twins.commands.signatures import Group, Names, command, read
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.text import for_terminal


def _baselines() -> Iterable[str]:
    """Return the choices of `--baselines`: `none` and the names of the baselines, for labels and
    for triples."""
    from narrative_twins.baselines.scorers import BASELINES
    from narrative_twins.evaluation.similarity import TRIPLE_BASELINES

    return ["none", *dict.fromkeys([*BASELINES, *TRIPLE_BASELINES])]


def _named_encoder(text: str) -> tuple[str, list[str | None]]:
    """Parse the name of an encoder and its runs: `a=x,y` as `("a", ["x", "y"])`. Without a name,
    `default` is `("default", [None])`, and another encoder is named by its path."""
    name, equals, paths = text.rpartition("=")
    encoders = [None if path == "default" else path for path in paths.split(",")]
    if "" in encoders or equals and not name:
        raise ValueError(f"{text!r} is not ENCODER, NAME=ENCODER or NAME=ENCODER,ENCODER")
    if not name and len(encoders) > 1:
        raise ValueError(f"{text!r} names several runs; give them a name: NAME={text}")
    if not name:
        from narrative_twins.evaluation.run import encoder_name

        name = "default" if encoders[0] is None else encoder_name(encoders[0])
    return name, encoders


def _named_files(text: str) -> tuple[str, list[str]]:
    """Parse the name of a scorer and its files: `a=x.csv,y.csv` as `("a", ["x.csv", "y.csv"])`."""
    name, _, files = text.partition("=")
    if not name or not all(files.split(",")):
        raise ValueError(f"{text!r} is not NAME=FILE")
    return name, files.split(",")


_LOADING = Group(EncoderOptions, read(EncoderOptions, without=("model", "revision")))


@command(extra="train")
def evaluate(
    stories: Sequence[str],
    scoring: Annotated[ScoringOptions, scoring_options("operations", "approximate", "similarity")],
    encoder: Annotated[EncoderOptions, _LOADING],
    *,
    model: Annotated[Sequence[tuple[str, list[str | None]]], _named_encoder] = (),
    out: str | None = None,
    split: str | None = None,
    second: str | None = None,
    results: Annotated[Sequence[tuple[str, list[str]]], _named_files] = (),
    baselines: Annotated[list[str], Names(_baselines)] | None = None,
    against: str | None = None,
    rule: Literal["numbered", "containing"] = "numbered",
    sentence_encoder: str | None = None,
    quiet: bool = False,
) -> int:
    """Compare encoders, with each operation, and baselines with human labels: Spearman and AUC, or
    AUC of turning points, with intervals and tests. DATA is stories with labels: files, folders,
    Hub ids, or `stories` and `synopses` of the package. Scores of encoders are saved in
    --out, and not computed again. Triples of stories are compared by accuracy: which of two stories
    is nearer to a third.

    Args:
        stories (DATA...): stories with labels.
        model (ENCODER): Folder, Hub id, default, base or multilingual, or NAME=ENCODER,ENCODER for
            several runs; can be repeated.
        out (FOLDER): Folder for tables and saved scores.
        split: Split of the data, or all (default: test, validation or the first).
        second (FILE): Labels by a second group of people, to compare with.
        results (NAME=FILE): Results of another scorer, as of `score --format jsonl`; can be
            repeated.
        baselines (A,B): Baselines, or none (default: all; textrank, lexrank and whole_text only
            with --sentence-encoder). For triples: length and tfidf, which needs scikit-learn.
        against (ROW): Test all rows against this one, for example trail.
        rule (NAME): Window in which turning point k is ranked: numbered (window k, as in the paper)
            or containing (the window that it is in).
        sentence_encoder (ENCODER): For baselines that embed sentences, for example the encoder
            before its training (default, if they are named: the default encoder).
        quiet: Show no progress.
    """
    names = [name for name, _ in [*model, *results]]
    if twice := [name for name in names if names.count(name) > 1]:
        raise click.UsageError(f"{twice[0]} is named twice; give each a name: NAME=ENCODER")

    import datasets
    from transformers.utils import logging

    from narrative_twins.evaluation.run import evaluate
    from narrative_twins.evaluation.similarity import is_similarity_data

    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    if is_similarity_data(stories[0]):
        of_labels = {
            "--results": results,
            "--second": second,
            "--rule": rule != "numbered",
            "--sentence-encoder": sentence_encoder,
            "--operations, --fast, --exact and --similarity": scoring != ScoringOptions(),
        }
        if unused := [name for name, value in of_labels.items() if value]:
            raise click.UsageError(f"{unused[0]}: of stories with labels, not of triples")
        return _evaluate_triples(stories, model, baselines, out, split, against, encoder.loading)
    with on_interrupt(f"scores so far are in {out}; the same command continues" if out else ""):
        comparison = evaluate(
            dict(model) or None,
            stories,
            out,
            baselines=[] if baselines == ["none"] else baselines,
            results=dict(results),
            second=second,
            split=split,
            against=against,
            rule=rule,
            sentence_encoder=sentence_encoder,
            loading=encoder.loading,
            options=replace(scoring, progress=shows_progress(quiet), on_truncation="ignore"),
        )
    for table in comparison.tables():
        print(for_terminal(table.to_markdown()))
    if out is not None:
        print(f"In {out}: results.json, table.md and table.tex", file=sys.stderr)
    return 0


def _evaluate_triples(
    files: Sequence[str],
    models: Sequence[tuple[str, list[str | None]]],
    baselines: list[str] | None,
    out: str | None,
    split: str | None,
    against: str | None,
    loading: dict[str, Any],
) -> int:
    """Print the comparison on each file with triples of stories, and write it into `out`."""
    from narrative_twins.evaluation.similarity import evaluate_similarity

    names = [Path(file).stem for file in files]
    if out and (twice := [name for name in names if names.count(name) > 1]):
        raise click.UsageError(f"two files are named {twice[0]}; rename one of them")
    for file in files:
        comparison = evaluate_similarity(
            dict(models) or {"default": None},
            file,
            split=split,
            baselines=[] if baselines == ["none"] else baselines,
            against=against,
            loading=loading,
        )
        print(for_terminal(comparison.table().to_markdown()))
        if out is not None:
            folder = Path(out, comparison.name) if len(files) > 1 else Path(out)
            comparison.write(folder)
            print(f"In {folder}: results.json, table.md and table.tex", file=sys.stderr)
    return 0

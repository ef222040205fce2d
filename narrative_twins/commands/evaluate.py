"""`narrative-twins evaluate`: encoders and baselines compared by their agreement with human
labels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from narrative_twins.commands.asking import request_options, samples_option
from narrative_twins.commands.options import (
    Names,
    Parsed,
    command,
    encoder_options,
    on_interrupt,
    option,
    option_group,
    quiet_option,
    scoring_options,
    watch,
)
from narrative_twins.prompting.chat import Server
from narrative_twins.writing import for_terminal


def _baselines() -> Iterable[str]:
    from narrative_twins.baselines.scorers import BASELINES

    return ["none", *BASELINES]


def _named_encoder(text: str) -> tuple[str, list[str | None]]:
    """The name of a row with an encoder or several runs of it, `[NAME=]ENCODER[,ENCODER...]`;
    `default` is the default one."""
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
    """Results of a scorer, `NAME=FILE[,FILE...]`."""
    name, _, files = text.partition("=")
    if not name or not all(files.split(",")):
        raise ValueError(f"{text!r} is not NAME=FILE")
    return name, files.split(",")


_LANGUAGE_MODEL: dict[str, dict[str, Any]] = {
    "answers": {
        "metavar": "FILE",
        "default": "answers.jsonl",
        "help": "Answers of the language model (default: answers.jsonl).",
    },
    "styles": {
        "type": Names("prompting.styles", "STYLES"),
        "default": ["choose", "rate"],
        "metavar": "A,B",
        "help": "Ways to ask, see docs/evaluation.md (default: choose,rate).",
    },
}


@command(
    "Compare encoders, with each operation, and baselines with human labels: Spearman and AUC, or"
    " AUC of turning points, with intervals and tests. DATA is stories with labels: files, folders,"
    " Hub ids, or `stories` and `synopses` of the package. Scores of encoders are saved in --out,"
    " and not computed again.",
    extra="train",
)
@click.argument("data", nargs=-1, metavar="DATA...")
@option("--data", "more_data", multiple=True, metavar="DATA", help="The same as the argument DATA.")
@option(
    "--model",
    "encoders",
    type=Parsed(_named_encoder),
    multiple=True,
    metavar="ENCODER",
    help="Folder, Hub id or default, or NAME=ENCODER,ENCODER for several runs; can be repeated.",
)
@option("-o", "--out", metavar="FOLDER", help="Folder for tables, plots and saved scores.")
@option("--split", help="Split of the data, or all (default: test, validation or the first).")
@option("--second", metavar="FILE", help="Labels by a second group of people, to compare with.")
@option(
    "--results",
    type=Parsed(_named_files),
    multiple=True,
    metavar="NAME=FILE",
    help="Results of another scorer, as of `score --format jsonl`; can be repeated.",
)
@option(
    "--baselines", type=Names(_baselines), metavar="A,B", help="Baselines, or none (default: all)."
)
@option("--against", metavar="ROW", help="Test all rows against this one, for example trail.")
@option(
    "--rule",
    type=click.Choice(["numbered", "containing"]),
    metavar="NAME",
    default="numbered",
    help="Window of a turning point: numbered or containing (default: numbered).",
)
@option("--sentence-encoder", metavar="ENCODER", help="For baselines that embed sentences.")
@request_options("language_model", required=False)
@option_group("prompted", "Language model", _LANGUAGE_MODEL)
@samples_option
@scoring_options("operations", "approximate", "max_shifts")
@encoder_options("model", "revision")
@quiet_option
def evaluate(
    data: Sequence[str],
    more_data: Sequence[str],
    encoders: Sequence[tuple[str, list[str | None]]],
    results: Sequence[tuple[str, list[str]]],
    out: str | None,
    baselines: list[str] | None,
    scoring: dict[str, Any],
    server: Server | None,
    prompted: dict[str, Any],
    samples: int,
    quiet: bool,
    **options: Any,
) -> int:
    """Evaluate, print the tables, write the folder."""
    names = [name for name, _ in [*encoders, *results]]
    if twice := [name for name in names if names.count(name) > 1]:
        raise click.UsageError(f"{twice[0]} is named twice; give each a name: NAME=ENCODER")
    if not data and not more_data:
        raise click.UsageError("name stories with labels")

    import datasets
    from transformers.utils import logging

    from narrative_twins.evaluation.run import evaluate
    from narrative_twins.evaluation.scorers import PromptedScorer

    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    with on_interrupt(f"scores so far are in {out}; the same command continues" if out else ""):
        comparison = evaluate(
            dict(encoders) or None,
            [*data, *more_data],
            out,
            results=dict(results),
            prompted=[
                PromptedScorer(server.model, server, options={"samples": samples}, **prompted)
            ]
            if server
            else (),
            baselines=[] if baselines == ["none"] else baselines,
            progress=watch(quiet),
            **options,
            **scoring,
        )
    for table in comparison.tables():
        print(for_terminal(table.to_markdown()))
    if out is not None:
        files = "results.json, table.md, table.tex and a plot of each data set"
        print(f"In {out}: {files}", file=sys.stderr)
    return 0

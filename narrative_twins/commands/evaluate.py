"""`narrative-twins evaluate`: encoders and baselines beside each other, measured by human
labels."""

from __future__ import annotations

import argparse
import sys
from typing import Any, get_args

import datasets
from rich.console import Console
from transformers.utils import logging as transformers_logging

from narrative_twins.baselines.styles import STYLES
from narrative_twins.commands.inputs import operations
from narrative_twins.commands.options import count, is_terminal
from narrative_twins.encoder.pooling import Pooling
from narrative_twins.evaluation.agreement import Rule
from narrative_twins.evaluation.run import encoder_name, evaluate
from narrative_twins.evaluation.scorers import PromptedScorer
from narrative_twins.llm.server import Server
from narrative_twins.salience.options import Approximation


def named_encoder(text: str) -> tuple[str, list[str | None]]:
    """An encoder or several runs of it, `[NAME=]ENCODER[,ENCODER...]`, for `argparse`; `default` is
    the default one."""
    name, equals, paths = text.rpartition("=")
    encoders = [None if path == "default" else path for path in paths.split(",")]
    if "" in encoders or equals and not name:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not ENCODER, NAME=ENCODER or NAME=ENCODER,ENCODER"
        )
    if not name and len(encoders) > 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} names several runs; give them a name: NAME={text}"
        )
    return name or ("default" if encoders[0] is None else encoder_name(encoders[0])), encoders


def named_file(text: str) -> tuple[str, list[str]]:
    """Results of a scorer, `NAME=FILE[,FILE...]`, for `argparse`."""
    name, _, files = text.partition("=")
    if not name or not all(files.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE")
    return name, files.split(",")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Compare encoders, with each operation, and baselines with human labels: Spearman and AUC,"
        " or AUC of turning points, with intervals and tests. Scores are saved in --out; a second"
        " run computes only what is missing."
    )
    add = parser.add_argument
    add(
        "encoders",
        nargs="*",
        type=named_encoder,
        metavar="ENCODER",
        help=(
            "folder or Hub id, or NAME=ENCODER,ENCODER for several runs of a row (default: the"
            " default encoder)"
        ),
    )
    add(
        "--data",
        nargs="+",
        required=True,
        metavar="FILE",
        help=(
            "stories with labels: files, folders, Hub ids, or `stories` and `synopses` of the"
            " package"
        ),
    )
    add(
        "-o",
        "--out",
        metavar="DIR",
        help="folder for results.json, table.md, table.tex, the plot and saved scores",
    )
    add("--split", help="of the data, or all (default: test, else validation, else the first)")
    add(
        "--second",
        metavar="FILE",
        help=(
            "labels of the same stories by a second group of people, to compare people with people"
        ),
    )
    add(
        "--results",
        nargs="+",
        type=named_file,
        default=[],
        metavar="NAME=FILE",
        help="results of other scorers, in the format of `narrative-twins score --format jsonl`",
    )
    add(
        "--language-model",
        metavar="NAME",
        help="also ask this language model, of --server, for salience",
    )
    add("--server", metavar="URL", help="an OpenAI-compatible server")
    add(
        "--key-variable", metavar="NAME", help="environment variable with the API key of the server"
    )
    add(
        "--answers",
        metavar="FILE",
        default="answers.jsonl",
        help="answers of the language model (%(default)s)",
    )
    add(
        "--styles",
        nargs="+",
        choices=STYLES,
        default=["choose", "rate"],
        help="ways to ask it (default: choose rate)",
    )
    add("--operations", type=operations, metavar="A,B", help="operations (default: all)")
    add("--baselines", metavar="A,B", help="baselines, or none (default: all)")
    add(
        "--against",
        metavar="ROW",
        help="test all rows against this one, for example trail or 'default deletion'",
    )
    add(
        "--rule",
        choices=get_args(Rule),
        default="numbered",
        help="window of a turning point (default: %(default)s)",
    )
    add(
        "--sentence-encoder",
        metavar="ENCODER",
        help="for the baselines that compare sentences (default: the default)",
    )
    add(
        "--pooling",
        choices=get_args(Pooling),
        help="of all encoders (default: that of the checkpoint, or mean)",
    )
    add(
        "--context-tokens",
        type=count,
        metavar="N",
        help="tokens read at once (default: the encoder's maximum)",
    )
    add(
        "--approximate",
        choices=get_args(Approximation),
        help="all operations but shifting from one forward pass",
    )
    add("--device", help="for example cpu or cuda:0 (default: an accelerator if there is one)")
    add(
        "--dtype",
        default="auto",
        help="precision, for example float32 (default: the fastest that keeps ranks)",
    )
    add("-q", "--quiet", action="store_true", help="no progress bars")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if (options.server is None) != (options.language_model is None):
        parser.error("--server and --language-model must be used together")
    names = [name for name, _ in [*options.encoders, *options.results]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        parser.error(f"{twice[0]} is named twice; give each a name of its own: NAME=ENCODER")


def on_interrupt(options: argparse.Namespace) -> str | None:
    """What to tell the user after an interruption."""
    return (
        None
        if options.out is None
        else f"scores so far are in {options.out}; the same command continues"
    )


def run(options: argparse.Namespace) -> int:
    """Evaluate, print the tables, write the folder."""
    transformers_logging.disable_progress_bar()
    datasets.disable_progress_bars()
    shown = is_terminal(sys.stderr) and not options.quiet
    console = Console(stderr=True)
    loading: dict[str, Any] = {
        "dtype": options.dtype,
        "device": options.device,
        "context_tokens": options.context_tokens,
    }
    comparison = evaluate(
        dict(options.encoders) or None,
        options.data,
        options.out,
        operations=options.operations,
        baselines=_baselines(options.baselines),
        results=dict(options.results),
        prompted=_prompted(options),
        second=options.second,
        split=options.split,
        against=options.against,
        rule=options.rule,
        sentence_encoder=options.sentence_encoder,
        loading=loading | {"pooling": options.pooling},
        approximate=options.approximate,
        progress=shown,
        report=console.print if shown else lambda message: None,
    )
    for table in comparison.tables():
        print(table.to_markdown())
    if options.out is not None:
        print(
            f"In {options.out}: results.json, table.md, table.tex and a plot of each data set",
            file=sys.stderr,
        )
    return 0


def _prompted(options: argparse.Namespace) -> list[PromptedScorer]:
    if options.server is None:
        return []
    server = Server(options.server, options.language_model, key_variable=options.key_variable)
    return [PromptedScorer(options.language_model, server, options.answers, options.styles)]


def _baselines(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [] if text == "none" else [name.strip() for name in text.split(",")]

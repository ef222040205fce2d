"""`narrative-twins export`: an encoder in ONNX or OpenVINO format, which runs without torch."""

from __future__ import annotations

import argparse

from narrative_twins.commands.options import add_allow_pickle
from narrative_twins.encoder.export import export_encoder
from narrative_twins.encoder.portable import FILES
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.extras import check_extra

_CALIBRATION = 200
"""Stories of the package by which the ranges of states are measured for int8."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Export an encoder, so that it runs without torch: narrative-twins score --model FOLDER"
        " --backend BACKEND."
    )
    add = parser.add_argument
    add(
        "model",
        nargs="?",
        metavar="ENCODER",
        help="folder or Hub id (default: the default encoder)",
    )
    add(
        "--backend",
        choices=tuple(FILES),
        required=True,
        help="the format, and the library that runs it",
    )
    add(
        "--dtype",
        choices=("float32", "int8"),
        default="float32",
        help="precision (default: %(default)s)",
    )
    add_allow_pickle(parser)
    add(
        "--to",
        required=True,
        metavar="FOLDER",
        help="folder to write to; that of the encoder, or another one",
    )


def run(options: argparse.Namespace) -> int:
    """Export, and print the path of the model."""
    encoder = StoryEncoder.from_pretrained(
        options.model, device="cpu", dtype="float32", allow_pickle=options.allow_pickle
    )
    texts: list[str] = []
    if options.dtype == "int8":
        check_extra("train")
        from narrative_twins.data.loading import load_story_twins

        texts = [
            " ".join(story) for story in load_story_twins(split="train")["story"][:_CALIBRATION]
        ]
    print(export_encoder(encoder, options.to, options.backend, dtype=options.dtype, texts=texts))
    return 0

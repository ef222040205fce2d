"""`narrative-twins export`: an encoder in the format of another backend, to run without torch."""

from __future__ import annotations

import argparse

from narrative_twins.encoder.backends import BACKENDS
from narrative_twins.encoder.export import export_encoder
from narrative_twins.encoder.story_encoder import StoryEncoder


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
        choices=tuple(BACKENDS),
        default="onnx",
        help="the format, and the library that runs it (default: %(default)s)",
    )
    add(
        "--to",
        required=True,
        metavar="FOLDER",
        help="folder to write to; that of the encoder, or another one",
    )


def run(options: argparse.Namespace) -> int:
    """Export, and print the path of the model."""
    encoder = StoryEncoder.from_pretrained(options.model, device="cpu", dtype="float32")
    print(export_encoder(encoder, options.to, options.backend))
    return 0

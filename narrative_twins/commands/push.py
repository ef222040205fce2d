"""`narrative-twins push`: push an encoder to the Hub."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from transformers.utils import logging as transformers_logging

from narrative_twins.hub.checked import checked_encoder
from narrative_twins.hub.facts import EncoderFacts, read_facts
from narrative_twins.hub.push import encoder_files, push_encoder


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Push an encoder with its card to the Hub, with the token of `hf auth login` or HF_TOKEN."
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="folder of a saved encoder")
    add("--to", required=True, metavar="USER/NAME", help="repository on the Hub")
    add(
        "--facts",
        metavar="FILE",
        help="YAML file of facts for the card (default: the card in the folder)",
    )
    add("--private", action="store_true", help="make the repository private, if it is created")
    add("--update", action="store_true", help="allow a repository that already has files")
    add(
        "--with-code",
        action="store_true",
        help="also push a branch with-code, for users without this package",
    )
    add(
        "--revision", metavar="BRANCH", help="branch to push to, created if missing (default: main)"
    )
    add("--message", help="commit message")
    add(
        "--dry-run",
        action="store_true",
        help="only print the files that would be pushed, and the card",
    )


def run(options: argparse.Namespace) -> int:
    """Push, or print what would be pushed."""
    transformers_logging.disable_progress_bar()
    facts = read_facts(EncoderFacts, options.facts) if options.facts else None
    if options.dry_run:
        with tempfile.TemporaryDirectory() as scratch:
            folder, facts = checked_encoder(options.model, Path(scratch), facts)
            files = encoder_files(folder, options.to, facts)
            for name, source in files.items():
                size = len(source) if isinstance(source, bytes) else source.stat().st_size
                print(f"{size:>14,}  {name}")
            print(f"\n{files['README.md'].decode()}")  # type: ignore[union-attr]
        return 0
    address = push_encoder(
        options.model,
        options.to,
        facts=facts,
        private=options.private,
        update=options.update,
        with_code=options.with_code,
        revision=options.revision,
        message=options.message,
    )
    print(address)
    return 0

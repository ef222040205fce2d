"""`narrative-twins push`: an encoder to the Hub."""

from __future__ import annotations

import argparse

from transformers.utils import logging as transformers_logging

from narrative_twins.hub.facts import EncoderFacts, read_facts
from narrative_twins.hub.push import encoder_files, push_encoder


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = "Push an encoder to the Hub with its card. The token is that of `hf auth login`, or HF_TOKEN."
    add = parser.add_argument
    add("model", metavar="MODEL", help="the folder an encoder was saved in")
    add("--to", required=True, metavar="USER/NAME", help="where to")
    add("--facts", metavar="FILE", help="what the card says, in YAML (default: the card in the folder)")
    add("--private", action="store_true", help="for nobody else to see, where the repository is made anew")
    add("--update", action="store_true", help="push into a repository that has files already")
    add("--with-code", action="store_true", help="also a branch with-code, for people without this package")
    add("--revision", metavar="BRANCH", help="push to a branch, made if need be (default: main)")
    add("--message", help="of the commit")
    add("--dry-run", action="store_true", help="only show what would be pushed, card included")


def run(options: argparse.Namespace) -> int:
    """Push, or show what would be pushed."""
    transformers_logging.disable_progress_bar()
    facts = read_facts(EncoderFacts, options.facts) if options.facts else None
    if options.dry_run:
        content = encoder_files(options.model, options.to, facts)
        for name, source in content.items():
            size = len(source) if isinstance(source, bytes) else source.stat().st_size
            print(f"{size:>14,}  {name}")
        print(f"\n{content['README.md'].decode()}")  # type: ignore[union-attr]
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

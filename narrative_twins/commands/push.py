"""`narrative-twins push`: pushes an encoder to the Hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from narrative_twins.commands.signatures import command
from narrative_twins.text import for_terminal


@command(extra="train")
def push(
    folder: str,
    *,
    to: str,
    facts: str | None = None,
    merged: bool = False,
    private: bool = False,
    update: bool = False,
    revision: str | None = None,
    message: str | None = None,
    dry_run: bool = False,
) -> int:
    """Push an encoder, a folder, with its card to the Hub, with the token of `hf auth login` or
    HF_TOKEN. The folder of a PEFT adapter is pushed as the adapter alone, without its base.

    Args:
        folder (FOLDER): the encoder.
        to (USER/NAME): Repository on the Hub.
        facts (FILE): YAML of facts for the card (default: its own).
        merged: Push an adapter merged into the weights of its base.
        private: Make the repository private, if it is created.
        update: Allow a repository that already has files.
        revision (BRANCH): Created if it is missing (default: main).
        message: Commit message.
        dry_run: Only print the files and the card.
    """
    from transformers.utils import logging

    from narrative_twins.hub.facts import EncoderFacts, read_facts
    from narrative_twins.hub.push import push_encoder, write_encoder

    logging.disable_progress_bar()
    about = read_facts(EncoderFacts, facts) if facts else None
    if not dry_run:
        options: Any = {"private": private, "update": update, "revision": revision}
        options |= {"merged": merged, "commit_message": message}
        print(push_encoder(folder, to, facts=about, **options))
        return 0
    with tempfile.TemporaryDirectory() as files:
        write_encoder(folder, files, to, about, merged)
        for path in sorted(path for path in Path(files).rglob("*") if path.is_file()):
            size = path.stat().st_size
            print(for_terminal(f"{size:>14,}  {path.relative_to(files).as_posix()}"))
        card = Path(files, "README.md").read_text(encoding="utf-8")
        print(for_terminal(f"\n{card}"))
    return 0

"""`narrative-twins app`, `annotate`, `push` and `data export`: encoders and data for
others, as web pages, as files and on the Hub."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import click

from narrative_twins.commands.options import (
    COUNT,
    check_rows_file,
    command,
    option,
    option_group,
    tell,
)
from narrative_twins.writing import JsonlLog, for_terminal


def _serving(opens: bool, **given: Any) -> dict[str, Any]:
    """The options of `serve`, with what is done when the page can be reached."""

    def ready(address: str) -> None:
        print(f"The page is at {address} until Ctrl-C.", flush=True)
        if opens:
            webbrowser.open(address)

    return {**given, "ready": ready}


_SERVING: dict[str, dict[str, Any]] = {
    "host": {"default": "127.0.0.1", "help": "Default: 127.0.0.1, reached from this machine only."},
    "port": {
        "type": click.IntRange(0, 65535),
        "metavar": "N",
        "help": "0 for any free port (default: 7860, or the next free port).",
    },
    "allow_hosts": {
        "flags": ("--allow-host",),
        "multiple": True,
        "metavar": "NAME",
        "help": "Another name of the page, for example that of a proxy; can be repeated.",
    },
    "opens": {"flags": ("--open",), "is_flag": True, "help": "Open the page in the browser."},
}


@command(
    "Serve a web page to score stories and books on, until Ctrl-C. It sends them nowhere else.",
    extra="demo",
)
@option_group("serving", "Options", _SERVING, _serving)
@option("--model", metavar="ENCODER", help="Folder or Hub id (default: the default encoder).")
@option("--exact", is_flag=True, help="Score exactly unless one pass (the default) is chosen.")
@option(
    "--max-sentences",
    type=COUNT,
    default=500,
    show_default=True,
    metavar="N",
    help="Longer stories and books are scored in one pass only.",
)
def app(model: str | None, exact: bool, max_sentences: int, serving: dict[str, Any]) -> int:
    """Serve the page."""
    from transformers.utils import logging

    from narrative_twins.app.page import ScoringPage
    from narrative_twins.app.scoring import Scoring
    from narrative_twins.app.server import serve

    logging.disable_progress_bar()
    with closing(Scoring(model, max_sentences)) as scoring:
        serve(lambda: ScoringPage(scoring, "exact" if exact else "one pass"), **serving)
    return 0


@command(
    "Serve a web page until Ctrl-C on which people read stories, sum up each in fewer than 12"
    " words, and choose its most important sentence. Their answers are labels for `evaluate`. The"
    " same command resumes.",
    extra="demo",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option("-o", "--out", required=True, metavar="FILE", help="JSON Lines of answers.")
@option_group("serving", "Options", _SERVING, _serving)
def annotate(files: Sequence[str], out: str, serving: dict[str, Any]) -> int:
    """Read the stories, and serve the page."""
    check_rows_file(files, out)

    from narrative_twins.app.annotate import AnnotationPage, Answers
    from narrative_twins.app.server import serve
    from narrative_twins.books.reading import read_story_files
    from narrative_twins.stories.story import Story, StoryError

    stories = []
    for name, content, problem in read_story_files(files):
        try:
            stories.append(Story.parse(StoryError(problem) if problem else content, windows=1))
        except StoryError as error:
            raise ValueError(f"{name}: {error.problem}") from None
    with JsonlLog(out) as log, suppress(KeyboardInterrupt):
        answers = Answers(stories, log, tell)
        serve(lambda: AnnotationPage(answers), **serving)
    return 0


@command(
    "Push an encoder, a folder, with its card to the Hub, with the token of `hf auth login` or"
    " HF_TOKEN.",
    extra="train",
)
@click.argument("model", metavar="FOLDER")
@option("--to", "name", required=True, metavar="USER/NAME", help="Repository on the Hub.")
@option(
    "--facts", "facts_file", metavar="FILE", help="YAML of facts for the card (default: its own)."
)
@option("--private", is_flag=True, help="Make the repository private, if it is created.")
@option("--update", is_flag=True, help="Allow a repository that already has files.")
@option("--revision", metavar="BRANCH", help="Created if it is missing (default: main).")
@option("--message", "commit_message", metavar="TEXT", help="Commit message.")
@option("--dry-run", is_flag=True, help="Only print the files and the card.")
def push(model: str, name: str, facts_file: str | None, dry_run: bool, **options: Any) -> int:
    """Push, or print what would be pushed."""
    from transformers.utils import logging

    from narrative_twins.hub.facts import EncoderFacts, read_facts
    from narrative_twins.hub.push import push_encoder, write_encoder

    logging.disable_progress_bar()
    facts = read_facts(EncoderFacts, facts_file) if facts_file else None
    if not dry_run:
        print(push_encoder(model, name, facts=facts, **options))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write_encoder(model, folder, name, facts)
        for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            size = path.stat().st_size
            print(for_terminal(f"{size:>14,}  {path.relative_to(folder).as_posix()}"))
        card = Path(folder, "README.md").read_text(encoding="utf-8")
        print(for_terminal(f"\n{card}"))
    return 0


@command(
    "Write the corpora of the package into FOLDER, as Parquet files with a card:"
    ' datasets.load_dataset(FOLDER, "stories"), or "synopses", "everyday" and "prose". The folder'
    " appears when it is complete.",
    extra="train",
)
@click.argument("folder")
def data_export(folder: str) -> int:
    """Write the folder, and list its files."""
    from narrative_twins.hub.push import export_corpora

    for name in export_corpora(folder):
        print(name)
    return 0

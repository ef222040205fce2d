"""`narrative-twins app`, `annotate` and `push`: serves web pages; pushes encoders to the Hub."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click

from narrative_twins.commands.common import check_rows_file, tell
from narrative_twins.commands.signatures import Count, command
from narrative_twins.writing import JsonlLog, for_terminal


@dataclass(frozen=True)
class Serving:
    """Options of the server of a page.

    Attributes:
        host: Address to listen at (default: 127.0.0.1, reached from this machine only).
        port (N): 0 for any free port (default: 7860, or the next free port).
        allow_host (NAME): Another name of the page, for example of a proxy; can be repeated.
        open: Open the page in the browser.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, click.IntRange(0, 65535)] | None = None
    allow_host: Sequence[str] = ()
    open: bool = False

    def serve(self, build: Callable[[], Any]) -> None:
        """Serve the page that `build` returns, until Ctrl-C."""
        from narrative_twins.app.server import serve

        serve(build, self.host, self.port, allow_hosts=self.allow_host, ready=self._ready)

    def _ready(self, address: str) -> None:
        """Print the address of the page, and open it in the browser if `open` is set."""
        print(f"The page is at {address} until Ctrl-C.", flush=True)
        if self.open:
            webbrowser.open(address)


@command(extra="demo")
def app(
    server: Serving, *, model: str | None = None, exact: bool = False, max_sentences: Count = 500
) -> int:
    """Serve a web page to score stories and books on, until Ctrl-C. It sends them nowhere else.

    Args:
        model (ENCODER): Folder or Hub id (default: the default encoder).
        exact: Preselect exact scores on the page (default: one pass).
        max_sentences (N): Longer stories and books are scored in one pass only.
    """
    from transformers.utils import logging

    from narrative_twins.app.page import ScoringPage
    from narrative_twins.app.scoring import Scoring

    logging.disable_progress_bar()
    with closing(Scoring(model, max_sentences)) as scoring:
        server.serve(lambda: ScoringPage(scoring, "exact" if exact else "one pass"))
    return 0


@command(extra="demo")
def annotate(files: Sequence[str], server: Serving, *, out: str) -> int:
    """Serve a web page until Ctrl-C on which people read stories, sum up each in fewer than 12
    words, and choose its most important sentence. Their answers are labels for `evaluate`. The same
    command resumes.

    Args:
        files (FILE...): the files of the stories.
        out (FILE): JSON Lines of answers.
    """
    check_rows_file(files, out)

    from narrative_twins.app.annotate import AnnotationPage, Answers
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
        server.serve(lambda: AnnotationPage(answers))
    return 0


@command(extra="train")
def push(
    folder: str,
    *,
    to: str,
    facts: str | None = None,
    private: bool = False,
    update: bool = False,
    revision: str | None = None,
    message: str | None = None,
    dry_run: bool = False,
) -> int:
    """Push an encoder, a folder, with its card to the Hub, with the token of `hf auth login` or
    HF_TOKEN.

    Args:
        folder (FOLDER): the encoder.
        to (USER/NAME): Repository on the Hub.
        facts (FILE): YAML of facts for the card (default: its own).
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
        print(push_encoder(folder, to, facts=about, commit_message=message, **options))
        return 0
    with tempfile.TemporaryDirectory() as files:
        write_encoder(folder, files, to, about)
        for path in sorted(path for path in Path(files).rglob("*") if path.is_file()):
            size = path.stat().st_size
            print(for_terminal(f"{size:>14,}  {path.relative_to(files).as_posix()}"))
        card = Path(files, "README.md").read_text(encoding="utf-8")
        print(for_terminal(f"\n{card}"))
    return 0

"""`narrative-twins make align`: long narrative twins from several versions of works."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import click

from narrative_twins.commands.files import check_rows_file
from narrative_twins.commands.messages import on_interrupt, shows_progress, tell
from narrative_twins.commands.signatures import Count, command
from narrative_twins.text import for_terminal
from narrative_twins.writing import STDIN


def parse_similarities(text: str) -> dict[str, float]:
    """Parse upper limits of similarity by language. `0.6,fr=0.7` is 0.7 for French and 0.6 for all
    other languages; `fr=0.7` is 0.7 for French and the default limits for other languages."""
    from narrative_twins.making.long_twins import MAX_SIMILARITY, OTHER_LANGUAGES

    limits: dict[str, float] = {}
    for item in text.split(","):
        language, _, value = item.rpartition("=")
        try:
            limits[language.strip() or OTHER_LANGUAGES] = float(value)
        except ValueError:
            problem = f"{text!r} is not a list of similarities such as 0.6,fr=0.681"
            raise ValueError(problem) from None
    return limits if OTHER_LANGUAGES in limits else {**MAX_SIMILARITY, **limits}


@command(extra="train")
def make_align(
    files: Sequence[str],
    *,
    out: str,
    windows: Count = 5,
    encoder: str | None = None,
    pooling: Literal["checkpoint", "pooler"] = "checkpoint",
    device: str | None = None,
    min_sentences: Count = 20,
    max_difference: Annotated[float, click.FloatRange(min=0)] = 13.7,
    min_window: Count = 3,
    max_similarity: Annotated[dict[str, float], parse_similarities] | None = None,
    language: str = "en",
    anonymized: bool = False,
    released: bool = False,
    seed: int = 0,
    resume: bool = False,
    quiet: bool = False,
) -> int:
    """Make long narrative twins from several versions of a work. FILE is JSON Lines (id, story,
    twins), JSON, a folder of these or of 'Tell me again!'; - is standard input.

    Args:
        files (FILE...): the works.
        out (FILE): JSON Lines file of the rows; facts for the data card are written next to it.
        windows (N): Windows of a story.
        encoder (ENCODER): Encoder of sentences (default: the one of the package).
        pooling: Of the checkpoint (checkpoint), or its trained pooler (pooler), which SimCSE needs.
        device (NAME): Device, such as cpu (default: an accelerator, if any).
        min_sentences (N): Minimum length of a story.
        max_difference (X): Maximum difference of story and twin in sentences (default: 13.7, as in
            the paper).
        min_window (N): Minimum sentences of the twin in a window.
        max_similarity (X,L=X): Drop versions that are more similar than this, if their similarity
            is given (default: fr=0.681,de=0.674,it=0.612,es=0.591,0.6). fr=0.7 changes the limit of
            one language; a number without a language is the limit of all languages that are not
            listed with it.
        language: Language of the versions, for the facts.
        anonymized: Twins of 'Tell me again!' with replaced names.
        released: Filter as the released code of the paper; --max-difference has no effect.
        seed (N): Seed of the choice among several twins (default: 0).
        resume: Continue an interrupted run.
        quiet: Show no progress and no estimate.
    """
    check_rows_file(files, out)
    if released and STDIN in files:
        click.get_current_context().fail("--released reads the works twice; name their file")

    from transformers.utils import logging

    from narrative_twins.making.generated_rows import FACTS
    from narrative_twins.making.long_twins import (
        MAX_SIMILARITY,
        Filters,
        SentenceEmbedder,
        make_long_twins,
    )

    limits = max_similarity or MAX_SIMILARITY
    filters = Filters(windows, min_sentences, max_difference, min_window, limits, released)
    logging.disable_progress_bar()
    with on_interrupt("continue with --resume"):
        embed = SentenceEmbedder(encoder, device, pooling)
        options: Any = {"seed": seed, "anonymized": anonymized, "language": language}
        options |= {"resume": resume, "progress": shows_progress(quiet), "report": tell}
        counts = make_long_twins(files, out, embed, filters, **options)
    for words, number in sorted(counts.items()):
        print(f"{number:>9,}  {words}")
    if not counts["works kept, with a twin"]:
        tell(f"{out} has no rows: no work has a twin that passes the filters (--help lists them)")
        return 1
    print(for_terminal(f"\n{out}, with its facts {Path(out).with_suffix(FACTS)}"))
    return 1 if counts["works that are invalid"] else 0

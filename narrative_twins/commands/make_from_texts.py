"""`narrative-twins make align` and `make entities`: narrative twins from several versions of a
work, and narrative twins with other names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from narrative_twins.commands.options import (
    COUNT,
    Number,
    Parsed,
    check_rows_file,
    command,
    counted,
    on_interrupt,
    option,
    plural,
    quiet_option,
    resume_option,
    shows_progress,
    tell,
)
from narrative_twins.writing import for_terminal


def parse_similarities(text: str) -> dict[str, float]:
    """Limits of similarity by language; without a limit for all other languages, these keep their
    defaults."""
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


@command(
    "Make long narrative twins from several versions of a work. FILE is JSON Lines (id, story,"
    " twins), JSON, a folder of these or of 'Tell me again!'; - is standard input.",
    extra="train",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option("-o", "--out", required=True, metavar="FILE", help="JSON Lines; facts are written, too.")
@option("--windows", **counted(COUNT, "N", 5, "Windows of a story"))
@option("--encoder", metavar="ENCODER", help="Encoder of sentences (default: that of the package).")
@option(
    "--pooling",
    type=click.Choice(["checkpoint", "pooler"]),
    default="checkpoint",
    help="That of the checkpoint, or its trained pooler, for SimCSE (default: checkpoint).",
)
@option("--device", metavar="NAME", help="Device, such as cpu (default: an accelerator, if any).")
@option("--min-sentences", **counted(COUNT, "N", 20, "Minimum length of a story"))
@option(
    "--max-difference",
    type=Number(min=0),
    default=13.7,
    metavar="X",
    help="Maximum difference of story and twin in sentences (default: 13.7, as in the paper).",
)
@option("--min-window", **counted(COUNT, "N", 3, "Minimum sentences of the twin in a window"))
@option(
    "--max-similarity",
    type=Parsed(parse_similarities),
    metavar="X,L=X",
    help="Drop versions that are more similar than this, if their similarity is given (default:"
    " fr=0.681,de=0.674,it=0.612,es=0.591,0.6). fr=0.7 changes the limit of one language; a number"
    " without a language is the limit of all languages that are not listed with it.",
)
@option("--language", default="en", help="Language of the versions, for the facts (default: en).")
@option("--anonymized", is_flag=True, help="Twins of 'Tell me again!' with replaced names.")
@option("--seed", type=int, default=0, help="Seed of the choice among several twins (default: 0).")
@resume_option
@quiet_option
def make_align(
    files: Sequence[str],
    out: str,
    encoder: str | None,
    pooling: Any,
    device: str | None,
    quiet: bool,
    windows: int,
    min_sentences: int,
    max_difference: float,
    min_window: int,
    max_similarity: dict[str, float] | None,
    **options: Any,
) -> int:
    """Align and write; print the counts of kept and dropped works."""
    check_rows_file(files, out)

    from transformers.utils import logging

    from narrative_twins.making.alignment import SentenceEmbedder
    from narrative_twins.making.generated import FACTS
    from narrative_twins.making.long_twins import MAX_SIMILARITY, Filters, make_long_twins

    limits = max_similarity or MAX_SIMILARITY
    filters = Filters(windows, min_sentences, max_difference, min_window, limits)
    logging.disable_progress_bar()
    with on_interrupt("continue with --resume"):
        embed = SentenceEmbedder(encoder, device, pooling)
        progress = shows_progress(quiet)
        counts = make_long_twins(
            files, out, embed, filters, progress=progress, report=tell, **options
        )
    for words, number in sorted(counts.items()):
        print(f"{number:>9,}  {words}")
    if not counts["works kept, with a twin"]:
        return 1
    print(for_terminal(f"\n{out}, with its facts {Path(out).with_suffix(FACTS)}"))
    return 1 if counts["works that are invalid"] else 0


@command(
    "Replace the names of people, places, organizations and other entities in narrative twins: the"
    " twin of a story and the twin of the distractor get names that occur nowhere else in the row."
    " Names are recognized by a spaCy pipeline.",
    extra="entities",
)
@click.argument("rows", metavar="FILE")
@option("-o", "--out", required=True, metavar="FILE", help="JSON Lines; facts are written, too.")
@option(
    "--pipeline",
    default="en_core_web_sm",
    show_default=True,
    metavar="NAME",
    help="spaCy pipeline.",
)
@option("--names", default="en_US", metavar="LOCALE", help="Locale of Faker (default: en_US).")
@option("--seed", type=int, default=0, metavar="N", help="Seed of the draw of names (default: 0).")
@option("--same-names", is_flag=True, help="Replace names in all texts of a row by the same names.")
@resume_option
@quiet_option
def make_entities(rows: str, out: str, quiet: bool, **options: Any) -> int:
    """Replace and write; print the number of rows with replaced names."""
    check_rows_file([rows], out)

    from narrative_twins.making.entities import replace_entities

    with on_interrupt("continue with --resume"):
        changed = replace_entities(rows, out, progress=shows_progress(quiet), **options)
    hint = "" if changed else "; is there a twin, and does the pipeline recognize entities?"
    tell(f"names are replaced in {plural(changed, 'row', 'rows')}{hint}")
    return 0

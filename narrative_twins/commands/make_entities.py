"""`narrative-twins make entities`: narrative twins with other names."""

from __future__ import annotations

from typing import Any

from narrative_twins.commands.files import check_rows_file
from narrative_twins.commands.messages import on_interrupt, shows_progress, tell
from narrative_twins.commands.signatures import command
from narrative_twins.text import counted


@command(extra="entities")
def make_entities(
    rows: str,
    *,
    out: str,
    pipeline: str = "en_core_web_sm",
    names: str = "en_US",
    seed: int = 0,
    resume: bool = False,
    quiet: bool = False,
) -> int:
    """Replace the names of people, places, organizations and other entities in narrative twins: the
    twin of a story and the twin of the distractor get names that occur nowhere else in the row.
    Names are recognized by a spaCy pipeline.

    Args:
        rows (FILE): the rows.
        out (FILE): JSON Lines file of the rows; facts for the data card are written next to it.
        pipeline (NAME): spaCy pipeline.
        names (LOCALE): Locale of Faker.
        seed (N): Seed of the draw of names (default: 0).
        resume: Continue an interrupted run.
        quiet: Show no progress and no estimate.
    """
    check_rows_file([rows], out)

    from narrative_twins.making.entities import replace_entities

    with on_interrupt("continue with --resume"):
        options: Any = {"names": names, "seed": seed, "resume": resume}
        options["progress"] = shows_progress(quiet)
        changed = replace_entities(rows, out, pipeline, **options)
    hint = "" if changed else "; is there a twin, and does the pipeline recognize entities?"
    tell(f"names are replaced in {counted(changed, 'row')}{hint}")
    return 0

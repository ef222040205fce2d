"""`narrative-twins make entities`: replaces the names of people, places and other entities in
narrative twins."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from itertools import islice, tee
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from narrative_twins.commands.options import check_rows_file, plural, resume_hint
from narrative_twins.data.loading import load_story_twins, load_window_twins
from narrative_twins.data.records import Record, read_records
from narrative_twins.data.rows import RowError, check_texts
from narrative_twins.files import STDIN, ResumableFile, digest_of_files
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.made import facts_beside, public_name, recipe_text, write_beside
from narrative_twins.making.names import LOCALE, read_names
from narrative_twins.making.substitution import TWIN_SIDES, EntitySubstitution, load_pipeline

OWN_NAMES = "in the twins only, by names that occur nowhere else in the row"
SAME_NAMES = "in all texts of a row, by the same new names"
LIMITS = (
    "Names are recognized by a pipeline, which misses some, and replaces some words that are not"
    " names."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Replace the names of people, places, organizations and other entities in narrative twins:"
        " the twin of a story and that of the distractor get names that occur nowhere else in the"
        " row. Names are recognized by a spaCy pipeline."
    )
    add = parser.add_argument
    add("rows", metavar="IN", help="rows of narrative twins, for example twins.jsonl")
    add(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help="JSON Lines to write; - for standard output",
    )
    add(
        "--pipeline",
        required=True,
        metavar="NAME",
        help=(
            "folder or name of a spaCy pipeline that recognizes entities, and optionally"
            " coreference"
        ),
    )
    add(
        "--names",
        default=LOCALE,
        metavar="LOCALE",
        help="draw given names of this locale of Faker, such as de_DE (default: %(default)s)",
    )
    add("--seed", type=int, default=0, metavar="N", help="seed of the draw of names (default: 0)")
    add(
        "--same-names",
        action="store_true",
        help=(
            "replace the names in all texts of a row, by the same new names in story, twin and"
            " negatives"
        ),
    )
    add("--resume", action="store_true", help="continue an interrupted run")
    add("-q", "--quiet", action="store_true", help="no progress bar")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if options.resume and options.out == STDIN:
        parser.error("--resume needs --out FILE")
    if options.out != STDIN:
        check_rows_file(parser, [options.rows], options.out)


def on_interrupt(options: argparse.Namespace) -> str | None:
    """What to tell the user after an interruption."""
    return resume_hint(options.out)


def run(options: argparse.Namespace) -> int:
    """Read, replace and write; print the number of replaced names."""
    names = read_names(options.names)
    # Report invalid rows and unreadable facts before hours of work.
    if options.out != STDIN:
        facts_beside(options.out)
    rows, twinless = _checked(options.rows)
    substitution = EntitySubstitution(
        load_pipeline(options.pipeline), names, options.seed, same_names=options.same_names
    )
    settings = _settings(options, substitution.pipeline)
    out = ResumableFile(options.out, settings, options.resume, sync=True)
    done, changed = _done(out, options)
    keep_edits = out.repeats_complete_run
    replaced, untouched = Counter[str](), 0
    if (
        options.resume
        and done == rows
        and os.path.exists(out.path)
        and not os.path.exists(out.part)
    ):
        print(_report(replaced, 0, untouched, done), file=sys.stderr)
        return 0
    if twinless and not options.same_names:
        problem = (
            f"{plural(twinless, 'row has', 'rows have')} no twin, so no names are replaced there"
        )
        print(
            f"narrative-twins: {problem}; --same-names replaces those of all texts", file=sys.stderr
        )
    with out:
        shown = sys.stderr.isatty() and not options.quiet
        records, copies = tee(islice(read_records(options.rows), done, None))
        substituted = substitution.pipe(
            (_with_id(record), record.id, record.where) for record in copies
        )
        found = zip(records, substituted, strict=True)
        for record, changes in tqdm(found, total=rows - done, unit="row", disable=not shown):
            out.write(_line(changes.row, record.where))
            replaced.update(changes.counts)
            untouched += not changes.counts
    print(_report(replaced, rows - done, untouched, done), file=sys.stderr)
    if out.is_regular:
        what = _what(options.same_names, replaced, rows, changed + rows - done - untouched, done)
        try:
            write_beside(options.out, _facts(options, settings, what), _load, keep_edits)
        except ValueError as error:  # an invalid row, or no rows that are long enough
            print(
                "narrative-twins: no card was written, since the rows can't be trained on:"
                f" {error}",
                file=sys.stderr,
            )
    return 0


def _checked(path: str) -> tuple[int, int]:
    """The number of rows of a file, and of those without a twin; raises RowError for an invalid
    row."""
    rows = twinless = 0
    for record in read_records(path):
        columns = check_texts(record.row, record.where)
        rows += 1
        twinless += not any(column in side for side in TWIN_SIDES for column in columns)
    return rows, twinless


def _settings(options: argparse.Namespace, pipeline: Any) -> dict[str, Any]:
    """All settings that the rows depend on."""
    meta, folder = getattr(pipeline, "meta", {}), getattr(pipeline, "path", None)
    return {
        "rows": Path(options.rows).resolve().name,
        "names replaced": SAME_NAMES if options.same_names else OWN_NAMES,
        "names recognized by": f"{public_name(options.pipeline)} {meta.get('version', '')}".strip(),
        "pipeline fingerprint": None if folder is None else digest_of_files(folder),
        "given names": f"{options.names} of Faker {metadata.version('faker')}",
        "seed": options.seed,
    }


def _facts(options: argparse.Namespace, settings: Mapping[str, Any], what: str) -> DatasetFacts:
    """The facts of the input, with the settings and results of the replacement."""
    known = facts_beside(options.rows) or DatasetFacts(
        "Narrative twins", "Stories with narrative twins.", "", ""
    )
    return replace(
        known,
        name=f"{known.name} with replaced names",
        description=f"{known.description}\n\n{what}",
        source=f"{known.source}\n\n{recipe_text('narrative-twins make entities', settings)}".strip(),
        limits=f"{known.limits} {LIMITS}".strip(),
    )


def _what(same_names: bool, replaced: Counter[str], rows: int, changed: int, done: int) -> str:
    """The results for the card."""
    naming = f"Names are replaced {SAME_NAMES if same_names else OWN_NAMES}."
    text = f"{naming} There are other names in {changed:,} of {plural(rows, 'row', 'rows')}"
    if done == rows:
        return f"{text}."
    # The counts of an earlier run are not known.
    where = f"in the last {rows - done:,} of them " if done else ""
    return f"{text}: {where}{_all_counts(replaced)}, counted separately in each row."


def _load(source: Any, cache_dir: str) -> Any:
    """Load rows of stories or of windows."""
    try:
        return load_story_twins(source, cache_dir=cache_dir)
    except RowError:
        return load_window_twins(source, cache_dir=cache_dir)


def _with_id(record: Record) -> dict[str, Any]:
    """A row with the id that it is loaded with, since the default id depends on the file."""
    row = dict(record.row)
    return row if row.get("id") is not None else {"id": record.id} | {**row, "id": record.id}


def _line(row: Mapping[str, Any], where: str) -> str:
    """A row as a line of JSON."""
    try:
        line = json.dumps(row, ensure_ascii=False)
        line.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise RowError(
            where, f"can't be written as JSON ({error}); fix or remove the column"
        ) from None
    return f"{line}\n"


def _done(out: ResumableFile, options: argparse.Namespace) -> tuple[int, int]:
    """Number of rows that an interrupted run has written, and of those changed; raises ResumeError
    for other rows."""
    changed = 0
    records = iter(read_records(options.rows))
    for number, row in enumerate(out.rows(), start=1):
        record = next(records, None)
        if record is None or row.get("id") != _with_id(record)["id"]:
            raise out.not_resumable(
                number, f"is not row {number} of {options.rows}; write to another file"
            )
        changed += row != _with_id(record)
    return len(out.lines), changed


def _report(replaced: Counter[str], rows: int, untouched: int, done: int) -> str:
    """The results for the terminal."""
    text = (
        f"{_all_counts(replaced)} replaced in {plural(rows, 'row', 'rows')}, {untouched:,}"
        " without any"
    )
    if done:
        text += f"; {plural(done, 'row', 'rows')} {'was' if done == 1 else 'were'} done before"
    if rows and untouched == rows:
        text += "; does the pipeline recognize entities?"
    return text


def _all_counts(replaced: Counter[str]) -> str:
    words = {
        "person": ("person", "people"),
        "place": ("place", "places"),
        "organization": ("organization", "organizations"),
        "miscellaneous": ("other entity", "other entities"),
    }
    *counts, last = (plural(replaced[kind], *forms) for kind, forms in words.items())
    return f"{', '.join(counts)} and {last}"

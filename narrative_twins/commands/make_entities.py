"""`narrative-twins make entities`: rows of narrative twins with people, places and organizations under other names."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice, tee
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from narrative_twins.commands.outputs import check_rows_file, counted, kept_part
from narrative_twins.data.loading import load_story_twins, load_window_twins
from narrative_twins.data.records import Record, read_records
from narrative_twins.data.rows import RowError, check_texts
from narrative_twins.files import STDIN, WholeFile, whole_lines
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.entities.names import read_names
from narrative_twins.making.entities.substitution import EntitySubstitution, load_pipeline
from narrative_twins.making.facts import begin_facts, check_recipe, facts_beside, in_list, name_of, write_beside

LIMITS = "Names are replaced where a pipeline recognized them: it misses some, and takes other words for names."


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "entities",
        help="replace the names in narrative twins",
        description="Give the people, places and organizations in rows of narrative twins other names, the same all "
        "through a row. What stands for what is told by a spaCy pipeline.",
    )
    add = parser.add_argument
    add("rows", metavar="IN", help="rows of narrative twins, such as twins.jsonl")
    add("-o", "--out", required=True, metavar="FILE", help="write there, in JSON Lines; - for standard output")
    add(
        "--pipeline",
        required=True,
        metavar="NAME",
        help="folder or name of a spaCy pipeline that recognizes entities, and perhaps coreference",
    )
    add(
        "--names", metavar="FILE", help="given names to draw from, a CSV of name,gender,count (default: a list of ours)"
    )
    add("--seed", type=int, default=0, metavar="N", help="other seeds draw other names (default: 0)")
    add("--resume", action="store_true", help="go on where an interrupted run stopped")
    add("-q", "--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=run, check=lambda options: check(parser, options), kept=kept)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if options.resume and options.out == STDIN:
        parser.error("--resume goes with --out FILE")
    if options.out != STDIN:
        check_rows_file(parser, [options.rows], options.out)


def kept(options: argparse.Namespace) -> str | None:
    """What there is to go on from after an interruption."""
    return kept_part(options.out)


def run(options: argparse.Namespace) -> int:
    """Read, replace, write; say how much was replaced."""
    out = WholeFile(options.out, keep=True, resume=options.resume, durable=True)
    names = read_names(options.names)
    # A row that is wrong is to be known before hours of work, and so are facts.
    if out.plain:
        facts_beside(options.out)
    rows = sum(1 for record in read_records(options.rows) if check_texts(record.row, record.where))
    substitution = EntitySubstitution(load_pipeline(options.pipeline), names, options.seed)
    facts = _facts(options, substitution.pipeline)
    done, changed = _done(options, substitution, facts.source) if options.resume else (0, 0)
    replaced, untouched = Counter[str](), 0
    if options.resume and done == rows and os.path.exists(out.path) and not os.path.exists(out.part):
        print(_report(replaced, 0, untouched, done), file=sys.stderr)
        return 0
    with out:
        if out.plain:
            begin_facts(options.out, facts)
        shown = sys.stderr.isatty() and not options.quiet
        records, named = tee(islice(read_records(options.rows), done, None))
        substituted = substitution.pipe((_named(record), record.id, record.where) for record in named)
        found = zip(records, substituted, strict=True)
        for record, one in tqdm(found, total=rows - done, unit="row", disable=not shown):
            out.write(_line(one.row, record.where))
            replaced.update(one.counts)
            untouched += not one.counts
    print(_report(replaced, rows - done, untouched, done), file=sys.stderr)
    if out.plain:
        told = _what(replaced, rows, changed + rows - done - untouched, done)
        try:
            write_beside(options.out, replace(facts, what=f"{facts.what}\n\n{told}"), _load)
        except RowError as error:
            print(f"narrative-twins: there is no card, since these are no rows to train on: {error}", file=sys.stderr)
    return 0


def _facts(options: argparse.Namespace, pipeline: Any) -> DatasetFacts:
    """What is known of the rows that are read, with what is done to them."""
    known = facts_beside(options.rows) or DatasetFacts("Narrative twins", "Stories with narrative twins.", "", "")
    version = importlib.metadata.version("narrative_twins")
    meta = getattr(pipeline, "meta", {})
    settings = {
        "rows": Path(options.rows).resolve().name,
        "names recognized by": f"{name_of(options.pipeline)} {meta.get('version', '')}".strip(),
        "given names": "those of the package" if options.names is None else name_of(options.names),
        "seed": options.seed,
    }
    recipe = in_list(f"`narrative-twins make entities` (narrative_twins {version})", settings)
    return replace(
        known,
        name=f"{known.name} under other names",
        source=f"{known.source}\n\n{recipe}".strip(),
        limits=f"{known.limits} {LIMITS}".strip(),
    )


def _what(replaced: Counter[str], rows: int, changed: int, done: int) -> str:
    """What was done, for the card."""
    text = f"People, places and organizations have other names in {changed:,} of {counted(rows, 'row', 'rows')}"
    if done == rows:
        return f"{text}."
    # An earlier run counted its own.
    where = f"in the last {rows - done:,} of them " if done else ""
    return f"{text}: {where}{_all_counts(replaced)}, counted anew in each row."


def _load(source: Any, cache_dir: str) -> Any:
    """Rows of stories or of windows, whichever they are."""
    try:
        return load_story_twins(source, cache_dir=cache_dir)
    except RowError:
        return load_window_twins(source, cache_dir=cache_dir)


def _named(record: Record) -> dict[str, Any]:
    """A row with the id it is loaded under, so that it keeps it in another file."""
    row = dict(record.row)
    return row if row.get("id") is not None else {"id": record.id} | {**row, "id": record.id}


def _line(row: Mapping[str, Any], where: str) -> str:
    """A row as a line of JSON."""
    try:
        line = json.dumps(row, ensure_ascii=False)
        line.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise RowError(where, f"can't be written as JSON ({error}); mend that column, or leave it out") from None
    return f"{line}\n"


def _done(options: argparse.Namespace, substitution: EntitySubstitution, recipe: str) -> tuple[int, int]:
    """How many rows an interrupted run has done, and how many of these have other names. The last of the latter is made
    anew, to see whether it is the same.

    Raises:
        ValueError: the file is not of such a run, or of one with other options.
    """
    lines = whole_lines(options.out)
    if lines:
        check_recipe(options.out, recipe)
    last: tuple[Record, str] | None = None
    changed = 0
    records = iter(read_records(options.rows))
    for number, line in enumerate(lines, start=1):
        try:
            row, record = json.loads(line), next(records, None)
            same = record is not None and row["id"] == _named(record)["id"]
        except (ValueError, KeyError, TypeError):
            same = False
        if not same:
            raise ValueError(
                f"can't resume {options.out}: its line {number} is not row {number} of {options.rows}; write to "
                "another file"
            )
        if record is not None and row != _named(record):
            last, changed = (record, line), changed + 1
    if last is not None:
        record, line = last
        if _line(substitution(_named(record), record.id, record.where).row, record.where) != f"{line}\n":
            raise ValueError(
                f"can't resume {options.out}: it was begun with other options; go on with the same, or write to "
                "another file"
            )
    return len(lines), changed


def _report(replaced: Counter[str], rows: int, untouched: int, done: int) -> str:
    """What was done, in words."""
    text = f"{_all_counts(replaced)} replaced in {counted(rows, 'row', 'rows')}, {untouched:,} without any"
    if done:
        text += f"; {counted(done, 'row', 'rows')} {'was' if done == 1 else 'were'} done before"
    if rows and untouched == rows:
        text += "; does the pipeline recognize entities?"
    return text


def _all_counts(replaced: Counter[str]) -> str:
    people, places = counted(replaced["person"], "person", "people"), counted(replaced["place"], "place", "places")
    return f"{people}, {places} and {counted(replaced['organization'], 'organization', 'organizations')}"

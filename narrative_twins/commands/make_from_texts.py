"""`narrative-twins make align` and `make entities`: narrative twins from several tellings of a
work, and narrative twins with other names."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from tqdm import tqdm

from narrative_twins.commands.options import (
    COUNT,
    Parsed,
    check_rows_file,
    command,
    on_interrupt,
    option,
    plural,
    quiet_option,
    resume_hint,
    resume_option,
    shows_progress,
    tell,
)
from narrative_twins.files import STDIN, ResumableFile, digest_of_files

if TYPE_CHECKING:
    from narrative_twins.data.records import Record
    from narrative_twins.data.rows import RowError
    from narrative_twins.hub.facts import DatasetFacts
    from narrative_twins.making.long_twins import LongTwins
    from narrative_twins.making.works import Work

Done: TypeAlias = dict[tuple[str, ...], list[list[str]]]
"""The twins in the rows of an earlier run, by the id and the story of the work."""

ALIGN_LIMITS = (
    "No human has checked the twins; sentences are aligned by the similarities of an encoder. The"
    " program does not know the authors and the licence of the texts: add them before you share the"
    " data."
)
OWN_NAMES = "in the twins only, by names that occur nowhere else in the row"
SAME_NAMES = "in all texts of a row, by the same new names"
NAMES_LIMITS = (
    "Names are recognized by a pipeline, which misses some, and replaces some words that are not"
    " names."
)


def parse_similarities(text: str) -> dict[str, float]:
    """Limits of similarity by language; without a limit for all other languages, these keep their
    defaults."""
    from narrative_twins.making.long_twins import MAX_SIMILARITY, OTHER_LANGUAGES

    found: dict[str, float] = {}
    for item in text.split(","):
        language, _, value = item.rpartition("=")
        language = language.strip() or OTHER_LANGUAGES
        if language in found:
            raise ValueError(f"{text!r} has two numbers for {language}; give one number")
        try:
            found[language] = float(value)
        except ValueError:
            raise ValueError(
                f"{text!r} is not a list of similarities such as 0.6,fr=0.681"
            ) from None
    return found if OTHER_LANGUAGES in found else {**MAX_SIMILARITY, **found}


@command(
    "Make long narrative twins from several tellings of a work. FILE is JSON Lines (id, story,"
    " twins), JSON, a folder or .zip archive of these, or of 'Tell me again!'; - is standard"
    " input.",
    extra="train",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option("-o", "--out", required=True, metavar="FILE", help="JSON Lines; a card is written, too.")
@option("--windows", type=COUNT, default=5, metavar="N", help="Of a story, even (default: 5).")
@option("--encoder", metavar="ENCODER", help="Of sentences (default: the default encoder).")
@option(
    "--pooling",
    type=click.Choice(["checkpoint", "pooler"]),
    default="checkpoint",
    help="As the encoder is saved, or its trained pooler, for SimCSE (default: checkpoint).",
)
@option("--device", metavar="NAME", help="Such as cpu (default: an accelerator, if any).")
@option("--batch-size", type=COUNT, default=32, metavar="N", help="Sentences (default: 32).")
@option("--min-sentences", type=COUNT, metavar="N", help="Of a story (default: 20).")
@option(
    "--max-difference",
    type=click.FloatRange(min=0),
    metavar="X",
    help="Of story and twin in sentences (default: 13.7, a standard deviation in the paper).",
)
@option("--min-window", type=COUNT, metavar="N", help="Sentences of the twin (default: 3).")
@option(
    "--max-similarity",
    type=Parsed(parse_similarities),
    metavar="X,L=X",
    help="Drop tellings that are more similar than this, if their similarity is given (default:"
    " fr=0.681,de=0.674,it=0.612,es=0.591,0.6). fr=0.7 changes the limit of one language; a number"
    " without a language is the limit of all languages that are not listed with it.",
)
@option("--language", default="en", help="Of the tellings, for the card (default: en).")
@option("--anonymized", is_flag=True, help="Twins of 'Tell me again!' with replaced names.")
@option("--seed", type=int, default=0, help="Of the choice among several twins (default: 0).")
@resume_option
@quiet_option
def make_align(
    files: Sequence[str],
    out: str,
    windows: int,
    encoder: str | None,
    pooling: Any,
    device: str | None,
    batch_size: int,
    language: str,
    anonymized: bool,
    seed: int,
    resume: bool,
    quiet: bool,
    **filtering: Any,
) -> int:
    """Read, align and write; print the counts of kept and dropped works."""
    check_rows_file(files, out)

    from transformers.utils import logging

    from narrative_twins.data.loading import load_window_twins
    from narrative_twins.encoder.loading import default_encoder
    from narrative_twins.hub.facts import DatasetFacts
    from narrative_twins.making.alignment import SentenceEmbedder
    from narrative_twins.making.long_twins import Filters, LongTwins
    from narrative_twins.making.made import (
        card_path,
        facts_beside,
        facts_path,
        public_name,
        recipe_text,
        write_beside,
    )
    from narrative_twins.making.works import read_documents, read_works
    from narrative_twins.stories.reading import count_stories

    filters = Filters(**{name: value for name, value in filtering.items() if value is not None})
    logging.disable_progress_bar()
    # Report an unreadable file of facts before hours of work.
    facts_beside(out)
    embed = SentenceEmbedder(encoder, device, batch_size, pooling)
    settings = {
        "works of": [
            "standard input" if file == STDIN else Path(file).resolve().name for file in files
        ],
        "sentence encoder": public_name(encoder or default_encoder()),
        "encoder fingerprint": embed.fingerprint,
        "sentence pooling": pooling,
        "windows": windows,
        **filters.settings(),
        "seed": seed,
        "names of 'Tell me again!' replaced": "in the twins only" if anonymized else "no",
    }
    file = ResumableFile(out, settings, resume, sync=True)
    done = _aligned_before(file)
    keep_edits = file.repeats_complete_run
    twins = LongTwins(embed, windows, seed, filters)
    with on_interrupt(lambda: resume_hint(out)), file:
        found = read_works(read_documents(files), anonymized)
        total = count_stories(list(files)) or None
        for name, work in tqdm(
            found, total=total, unit=" works", disable=not shows_progress(quiet)
        ):
            _align(name, work, twins, done, file)
    twins.counts.earlier_rows = sum(map(len, done.values()))
    counted = list(twins.counts.describe(filters))
    for words, number in counted:
        print(f"{number:>9,}  {words}")
    if twins.counts.earlier_rows:
        tell(
            f"{twins.counts.earlier_rows:,} rows of the earlier run are of works or twins that are"
            " not in the input now, and are kept; start over to drop them"
        )
    if embed.truncated:
        tell(
            f"{embed.truncated:,} sentences are longer than the encoder's context; their ends had"
            " no effect"
        )
    facts = DatasetFacts(
        "Long narrative twins",
        _description(counted),
        recipe_text("narrative-twins make align", settings),
        ALIGN_LIMITS,
        language=language,
        tags=["narrative-twins"],
    )
    if not twins.counts.rows:
        tell("no work is left, so there is no card; the counts show why")
        write_beside(out, facts, None, keep_edits)
        return 1
    write_beside(out, facts, load_window_twins, keep_edits)
    print(f"\n{out}, with its card {card_path(out)} and its facts {facts_path(out)}")
    return 1 if twins.counts.unreadable else 0


def _align(
    name: str, work: Work | RowError, twins: LongTwins, done: Done, out: ResumableFile
) -> None:
    """Write the row of a work, unless the earlier run did, or report why there is none."""
    from narrative_twins.data.rows import RowError

    if not isinstance(work, RowError):
        # Works with the same id and story may have different twins.
        earlier = done.get((work.id, *work.story), [])
        index = twins.count_existing(work, earlier)
        if index is not None:
            del earlier[index]
            return
        try:
            row = twins.row(work)
        except RowError as error:
            work = RowError(name, str(error))
        else:
            if row is not None:
                out.write_row(row)
            return
    twins.counts.works += 1
    twins.counts.unreadable += 1
    tell(work)


def _description(counted: Iterable[tuple[str, int]]) -> str:
    """The description of the data set, with the counts of kept and dropped works."""
    # Counts by reason become nested lists.
    lines = "\n".join(
        f"{'  ' if words.startswith('-') else '- '}{words}: {number:,}" for words, number in counted
    )
    return (
        "Stories in windows, each with a narrative twin: the same plot told by someone else. The"
        " story is cut into even windows; a sentence of the twin is in the windows of the"
        f" sentences of the story that dynamic time warping aligns it to.\n\n{lines}"
    )


def _aligned_before(out: ResumableFile) -> Done:
    """The works in the output of an interrupted run; raises ResumeError if a line is not a row of
    this command."""
    done: Done = defaultdict(list)
    for number, row in enumerate(out.rows(), start=1):
        try:
            story = [sentence for window in row["story"] for sentence in window]
            done[(row["id"], *story)].append(row["twin"])
        except (KeyError, TypeError):
            raise out.not_resumable(number, "is not a row of this command") from None
    return done


@command(
    "Replace the names of people, places, organizations and other entities in narrative twins: the"
    " twin of a story and that of the distractor get names that occur nowhere else in the row."
    " Names are recognized by a spaCy pipeline.",
    extra="train",
)
@click.argument("rows", metavar="FILE")
@option("-o", "--out", required=True, metavar="FILE", help="JSON Lines; - for standard output.")
@option("--pipeline", required=True, metavar="NAME", help="Folder or name of a spaCy pipeline.")
@option("--names", default="en_US", metavar="LOCALE", help="Of Faker (default: en_US).")
@option("--seed", type=int, default=0, metavar="N", help="Of the draw of names (default: 0).")
@option("--same-names", is_flag=True, help="Replace names in all texts of a row by the same names.")
@resume_option
@quiet_option
def make_entities(
    rows: str,
    out: str,
    pipeline: str,
    names: str,
    seed: int,
    same_names: bool,
    resume: bool,
    quiet: bool,
) -> int:
    """Read, replace and write; print the number of replaced names."""
    if out != STDIN:
        check_rows_file([rows], out)
    elif resume:
        raise click.UsageError("--resume needs --out FILE")

    from narrative_twins.data.records import read_records
    from narrative_twins.making.made import facts_beside, public_name, write_beside
    from narrative_twins.making.names import read_names
    from narrative_twins.making.substitution import EntitySubstitution, load_pipeline

    given = read_names(names)
    # Report invalid rows and unreadable facts before hours of work.
    if out != STDIN:
        facts_beside(out)
    total, twinless = _checked(rows)
    substitution = EntitySubstitution(load_pipeline(pipeline), given, seed, same_names=same_names)
    meta = getattr(substitution.pipeline, "meta", {})
    folder = getattr(substitution.pipeline, "path", None)
    settings = {
        "rows": Path(rows).resolve().name,
        "names replaced": SAME_NAMES if same_names else OWN_NAMES,
        "names recognized by": f"{public_name(pipeline)} {meta.get('version', '')}".strip(),
        "pipeline fingerprint": None if folder is None else digest_of_files(folder),
        "given names": f"{names} of Faker {metadata.version('faker')}",
        "seed": seed,
    }
    file = ResumableFile(out, settings, resume, sync=True)
    done, changed = _replaced_before(file, rows)
    keep_edits = file.repeats_complete_run
    replaced, untouched = Counter[str](), 0
    if done == total and Path(file.path).exists() and not Path(file.part).exists():
        print(_report(replaced, 0, untouched, done), file=sys.stderr)
        return 0
    if twinless and not same_names:
        problem = f"{plural(twinless, 'row has', 'rows have')} no twin, so no names are replaced"
        tell(f"{problem} there; --same-names replaces those of all texts")
    with on_interrupt(lambda: resume_hint(out)), file:
        records, copies = tee(islice(read_records(rows), done, None))
        substituted = substitution.pipe(
            (_with_id(record), record.id, record.where) for record in copies
        )
        found = zip(records, substituted, strict=True)
        hidden = not shows_progress(quiet)
        for record, changes in tqdm(found, total=total - done, unit="row", disable=hidden):
            file.write(_line(changes.row, record.where))
            replaced.update(changes.counts)
            untouched += not changes.counts
    print(_report(replaced, total - done, untouched, done), file=sys.stderr)
    if file.is_regular:
        changed += total - done - untouched
        facts = _renamed_facts(rows, settings, _what(same_names, replaced, total, changed, done))
        try:
            write_beside(out, facts, _load, keep_edits)
        except ValueError as error:  # an invalid row, or no rows that are long enough
            tell(f"no card was written, since the rows can't be trained on: {error}")
    return 0


def _checked(path: str) -> tuple[int, int]:
    """The number of rows of a file, and of those without a twin; raises RowError for an invalid
    row."""
    from narrative_twins.data.records import read_records
    from narrative_twins.data.rows import check_texts
    from narrative_twins.making.substitution import TWIN_SIDES

    rows = twinless = 0
    for record in read_records(path):
        columns = check_texts(record.row, record.where)
        rows += 1
        twinless += not any(column in side for side in TWIN_SIDES for column in columns)
    return rows, twinless


def _renamed_facts(rows: str, settings: Mapping[str, Any], what: str) -> DatasetFacts:
    """The facts of the input, with the settings and results of the replacement."""
    from narrative_twins.hub.facts import DatasetFacts
    from narrative_twins.making.made import facts_beside, recipe_text

    known = facts_beside(rows) or DatasetFacts(
        "Narrative twins", "Stories with narrative twins.", "", ""
    )
    recipe = recipe_text("narrative-twins make entities", settings)
    return replace(
        known,
        name=f"{known.name} with replaced names",
        description=f"{known.description}\n\n{what}",
        source=f"{known.source}\n\n{recipe}".strip(),
        limits=f"{known.limits} {NAMES_LIMITS}".strip(),
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
    from narrative_twins.data.loading import load_story_twins, load_window_twins
    from narrative_twins.data.rows import RowError

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
    from narrative_twins.data.rows import RowError

    try:
        line = json.dumps(row, ensure_ascii=False)
        line.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise RowError(
            where, f"can't be written as JSON ({error}); fix or remove the column"
        ) from None
    return f"{line}\n"


def _replaced_before(out: ResumableFile, rows: str) -> tuple[int, int]:
    """Number of rows that an interrupted run has written, and of those changed; raises ResumeError
    for other rows."""
    from narrative_twins.data.records import read_records

    changed = 0
    records = iter(read_records(rows))
    for number, row in enumerate(out.rows(), start=1):
        record = next(records, None)
        if record is None or row.get("id") != _with_id(record)["id"]:
            raise out.not_resumable(number, f"is not row {number} of {rows}; write to another file")
        changed += row != _with_id(record)
    return len(out.lines), changed


def _report(replaced: Counter[str], rows: int, untouched: int, done: int) -> str:
    """The results for the terminal."""
    text = (
        f"{_all_counts(replaced)} replaced in {plural(rows, 'row', 'rows')}, {untouched:,}"
        " without any"
    )
    if done:
        text += f"; {plural(done, 'row was', 'rows were')} done before"
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

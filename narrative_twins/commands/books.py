"""`narrative-twins book` and `extract`: a book, scored at several levels, and its salient
sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from narrative_twins.books.result import DEFAULT_SHARE, read_book_salience
from narrative_twins.books.table import LEVELS
from narrative_twins.commands.options import (
    COUNT,
    Choices,
    Names,
    Parsed,
    check_output,
    command,
    encoder_options,
    on_interrupt,
    option,
    output_format,
    quiet_option,
    resume_option,
    scoring_options,
    shows_progress,
    tell,
    usage_errors,
    watch,
)
from narrative_twins.commands.outputs import (
    JSON_LINES,
    ResultOutput,
    formats_of_books,
    output_options,
)
from narrative_twins.commands.score import load_encoder, run_settings
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.options import FAST, ScoringOptions
from narrative_twins.salience.result import PRIMARY_OPERATION
from narrative_twins.writing import STDIN, JsonlLog, check_writable, digest

if TYPE_CHECKING:
    from narrative_twins.books.scoring import BookScorer
    from narrative_twins.books.table import BookTable

_LARGE = 1_000_000  # bytes of a file that may take seconds to read
_SAVED = (".json", ".jsonl")
_EXTRACTS = {".txt": "text", ".md": "markdown"}


@command(
    "Score the chapters of a book, the scenes of chapters and the sentences of scenes. FILE is"
    " text, EPUB, Word, HTML, Markdown or PDF."
)
@click.argument("file")
@option(
    "--level",
    "levels",
    type=Names(lambda: LEVELS),
    default=list(LEVELS),
    metavar="A,B",
    help=f"Levels to score, of {','.join(LEVELS)} (default: all).",
)
@scoring_options("operations", "approximate", "max_shifts", "splitter", **FAST)
@encoder_options()
@output_options(formats_of_books, is_book=True)
@resume_option
@quiet_option
def book(
    file: str,
    levels: list[str],
    scoring: dict[str, Any],
    loading: dict[str, Any],
    output: ResultOutput,
    resume: bool,
    quiet: bool,
) -> int:
    """Read, score and write a book."""
    output.check([file], resume, is_book=True)
    is_logged = output.is_resumable
    if is_logged and resume and os.path.exists(output.out):
        tell(f"{output.out} is complete; to score the book again, delete it")
        return 0
    table, scorer = _load(file, levels, scoring, loading, quiet)
    result = scorer.result(table)

    def rows(done: Sequence[Mapping[str, Any]] = ()) -> Iterator[dict[str, Any]]:
        yield from scorer.rows(table, result, done)
        yield result.book_row()

    if not is_logged:
        if output.format == JSON_LINES:
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
            output.write_pieces(lines)
        else:
            output.write(scorer.score(table))
        return 0
    settings = run_settings(ScoringOptions(**scoring), loading, scorer.encoder)
    settings["levels"] = list(scorer.operations)
    spans = [table.title, *(table.units(level).spans for level in LEVELS)]
    settings["book"] = digest([*spans, table.chapters.texts, table.sentences.texts])
    log = JsonlLog(f"{output.out}.part", settings, resume)
    done = [row for row in log.rows if "scenes" in row]  # the last line may be of the book
    with on_interrupt(f"results so far are in {log.path}; continue with --resume"), log:
        for row in rows(done) if len(done) == len(log.rows) else ():
            log.append(row)
    log.complete(output.out)
    return 0


def _load(
    file: str,
    levels: list[str],
    scoring: Mapping[str, Any],
    loading: Mapping[str, Any],
    quiet: bool,
) -> tuple[BookTable, BookScorer]:
    """Read and divide the book, then load what it is scored with, so that what is wrong with it is
    reported at once."""
    from narrative_twins.books.scoring import BookScorer, level_operations
    from narrative_twins.books.table import book_table

    with usage_errors():
        level_operations(levels, scoring)
    if shows_progress(quiet) and os.path.isfile(file) and os.path.getsize(file) > _LARGE:
        tell(f"reading {file}")
    table = book_table(file, scoring["splitter"])
    encoder = load_encoder(loading)
    return table, BookScorer.of(encoder, levels, progress=watch(quiet), **scoring)


def _percentage(text: str) -> float:
    """A share above 0, up to 1, also as a percentage: `0.1` or `10%`."""
    number = text.removesuffix("%")
    try:
        value = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ValueError(f"{text!r} is not a share of the sentences, such as 10% or 0.1")
    return value


@command(
    "The most salient sentences of each part of a book, in story order under the headings of its"
    " chapters. FILE is a book, or its scores as JSON or JSON Lines from `narrative-twins book`,"
    " which needs no encoder."
)
@click.argument("file")
@option(
    "--share",
    type=Parsed(_percentage),
    metavar="X",
    help=f"Share of the sentences: 10% or 0.1 (default: {DEFAULT_SHARE:.0%}).",
)
@option("--sentences", type=COUNT, metavar="N", help="How many sentences.")
@option("--words", type=COUNT, metavar="N", help="Maximum number of words.")
@option(
    "--operation",
    type=Choices(lambda: OPERATIONS),
    help=f"Operation that chooses sentences (default: {PRIMARY_OPERATION}).",
)
@scoring_options("approximate", "splitter", **FAST)
@encoder_options()
@option(
    "-f",
    "--format",
    "form",
    type=Choices(_EXTRACTS.values),
    help="Format of the output (default: by the suffix of --out, otherwise text).",
)
@option(
    "-o", "--out", default=STDIN, metavar="FILE", help="Output file (default: standard output)."
)
@quiet_option
def extract(
    file: str,
    share: float | None,
    sentences: int | None,
    words: int | None,
    operation: str | None,
    scoring: dict[str, Any],
    loading: dict[str, Any],
    form: str | None,
    out: str,
    quiet: bool,
) -> int:
    """Read the book, score it if needed, and write the extract."""
    check_output([file], out)
    if sum(length is not None for length in (share, sentences, words)) > 1:
        raise click.UsageError("--share, --sentences and --words all set the length; use one")
    form = output_format(out, form, _EXTRACTS)
    check_writable(out)
    if file.lower().endswith(_SAVED):
        result = read_book_salience(file)
    else:
        scoring |= {"operations": [operation or PRIMARY_OPERATION], "max_shifts": None}
        table, scorer = _load(file, ["sentence"], scoring, loading, quiet)
        result = scorer.score(table)
    selected = result.extract(sentences, operation, share=share, words=words)
    piece = selected.to_markdown() if form == "markdown" else f"{selected}\n"
    ResultOutput(out, "extract").write_pieces([piece])
    return 0

"""What `score --level` and `extract` share: a book, scored at several levels, and its output."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys

from narrative_twins.commands.inputs import not_english, read_encoder, run_settings
from narrative_twins.commands.outputs import BOOK_FORMATS, write_book_output, write_piece
from narrative_twins.files import STDIN, AtomicFile, ResumableFile, ResumeError
from narrative_twins.salience.books.result import BookSalience, book_line
from narrative_twins.salience.books.scoring import BookScorer, level_operations
from narrative_twins.salience.books.units import (
    ScoredChapter,
    chapter_line,
    is_complete,
    scored_chapters,
)
from narrative_twins.salience.operations import resolve_operations
from narrative_twins.salience.options import BookOptions
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.reading import read_book
from narrative_twins.stories.language import is_foreign

_START = 100_000  # characters from which the language is told

# Options of `score` that mean nothing for a book, with their defaults, and why.
_REFUSED = {
    "windows": ("auto", "the windows of a book are those of its scenes"),
    "processes": (1, "a book is scored by one process"),
    "column": (None, "a book is one text"),
    "input_format": ("auto", "the format of a book is told by its suffix"),
    "score_headings": (False, "headings are the names of chapters"),
}


def check_book(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that do not apply to a book."""
    if len(options.files) != 1 or options.files == [STDIN]:
        parser.error("a book is one file; name it")
    for name, (default, why) in _REFUSED.items():
        if hasattr(options, name) and getattr(options, name) != default:
            parser.error(f"--{name.replace('_', '-')} does not apply to a book: {why}")


def check_score(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options of `score` that do not apply to `--level`."""
    check_book(parser, options)
    if options.format not in BOOK_FORMATS:
        parser.error(
            f"--format {options.format} does not apply to --level; choose from"
            f" {', '.join(BOOK_FORMATS)}"
        )
    if options.top is not None and options.format != "text":
        parser.error(
            "--top with --level needs --format text: the sentences of each chapter that are shown"
        )


def run_book(options: argparse.Namespace) -> int:
    """Read, score and write a book."""
    out = AtomicFile(options.out)
    book, scorer = load_book(options)
    if options.format == "jsonl":
        _write_lines(book, scorer, options)
        return 0
    write_book_output(
        scorer.result(book, scorer.chapters(book, progress=_progress(options))), out, options
    )
    return 0


def score_whole_book(options: argparse.Namespace) -> BookSalience:
    """Read and score a book as the options say."""
    book, scorer = load_book(options)
    return scorer.result(book, scorer.chapters(book, progress=_progress(options)))


def load_book(options: argparse.Namespace) -> tuple[Book, BookScorer]:
    """Read the book, then load what it is scored with, so that what is wrong with it is told at
    once."""
    scoring: BookOptions = {
        "operations": options.operations,
        "approximate": options.approximate,
        "max_shifts": options.max_shifts,
        "splitter": options.split,
    }
    level_operations(options.level, scoring)
    book = read_book(options.files[0])
    if (hint := not_english(options)) and is_foreign(book.text[:_START]):
        print(f"narrative-twins: {options.files[0]}: {hint}", file=sys.stderr)
    return book, BookScorer.of(read_encoder(options), options.level, **scoring)


def _progress(options: argparse.Namespace) -> bool:
    return sys.stderr.isatty() and not options.quiet


def _write_lines(book: Book, scorer: BookScorer, options: argparse.Namespace) -> None:
    """Write a line per chapter as it is scored, after those of an earlier run, and one for the
    book."""
    options.operations = resolve_operations(options.operations)
    settings = run_settings(options, scorer.encoder) | {
        "levels": list(scorer.levels),
        "book": _digest(book),
    }
    out = ResumableFile(options.out, settings, options.resume)
    try:
        done = scored_chapters(out.lines)
        complete = is_complete(out.lines)
    except ValueError as error:
        raise ResumeError(f"can't resume {options.out}: {error}") from None
    with out:
        chapters: list[ScoredChapter] = []
        for chapter in scorer.chapters(book, done, _progress(options)):
            chapters.append(chapter)
            if len(chapters) > len(done):
                write_piece(out, chapter_line(chapter), options)
        if not complete:
            write_piece(out, book_line(scorer.result(book, chapters)), options)


def _digest(book: Book) -> str:
    form = [
        book.title,
        book.text,
        [(heading, spans, sorted(marks)) for heading, spans, marks in book.chapters],
    ]
    return hashlib.sha256(json.dumps(form).encode("ascii")).hexdigest()[:16]

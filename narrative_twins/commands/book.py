"""What `score --level` and `extract` share: a book, scored at several levels, and its output."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable

from rich.console import Console

from narrative_twins.commands.inputs import not_english, read_encoder, run_settings
from narrative_twins.commands.options import is_terminal
from narrative_twins.commands.outputs import for_stdout
from narrative_twins.files import STDIN, AtomicFile, ResumableFile, ResumeError
from narrative_twins.salience.books.levels import level_operations
from narrative_twins.salience.books.lines import book_line, chapter_line, is_complete, scored_chapters
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.books.scoring import BookScorer, ScoredChapter
from narrative_twins.salience.operations import resolve_operations
from narrative_twins.show.book import TOP, book_html, book_text
from narrative_twins.stories.book import Book
from narrative_twins.stories.books import read_book
from narrative_twins.stories.language import is_foreign

FORMATS = ("text", "json", "jsonl", "html")
"""The formats of the salience of a book."""

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
    if options.format not in FORMATS:
        parser.error(f"--format {options.format} does not apply to --level; choose from {', '.join(FORMATS)}")
    if options.top is not None and options.format != "text":
        parser.error("--top with --level needs --format text: the sentences of each chapter that are shown")


def run_book(options: argparse.Namespace) -> int:
    """Read, score and write a book."""
    out = AtomicFile(options.out)
    book, scorer = load_book(options)
    if options.format == "jsonl":
        _write_lines(book, scorer, options)
        return 0
    result = scorer.result(book, scorer.chapters(book, progress=_progress(options)))
    pieces: Iterable[str]
    if options.format == "text":
        console = Console() if options.out == STDIN and is_terminal(sys.stdout) else None
        pieces = [book_text(result, options.top or TOP, console)]
    elif options.format == "html":
        pieces = book_html(result)
    else:
        pieces = [json.dumps(result.to_dict(), ensure_ascii=False) + "\n"]
    with out:
        for piece in pieces:
            _write(out, piece, options)
    return 0


def score_whole_book(options: argparse.Namespace) -> BookSalience:
    """Read and score a book as the options say."""
    book, scorer = load_book(options)
    return scorer.result(book, scorer.chapters(book, progress=_progress(options)))


def load_book(options: argparse.Namespace) -> tuple[Book, BookScorer]:
    """Read the book, then load what it is scored with, so that what is wrong with it is told at once."""
    level_operations(options.level, options.operations, options.approximate, options.max_shifts)
    book = read_book(options.files[0])
    if (hint := not_english(options)) and is_foreign(book.text[:_START]):
        print(f"narrative-twins: {options.files[0]}: {hint}", file=sys.stderr)
    scorer = BookScorer.of(
        read_encoder(options), options.level, options.operations, options.split, options.approximate, options.max_shifts
    )
    return book, scorer


def _progress(options: argparse.Namespace) -> bool:
    return sys.stderr.isatty() and not options.quiet


def _write_lines(book: Book, scorer: BookScorer, options: argparse.Namespace) -> None:
    """Write a line per chapter as it is scored, after those of an earlier run, and one for the book."""
    options.operations = resolve_operations(options.operations)
    settings = run_settings(options, scorer.encoder) | {"levels": list(scorer.levels), "book": _digest(book)}
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
                _write(out, chapter_line(chapter), options)
        if not complete:
            _write(out, book_line(scorer.result(book, chapters)), options)


def _write(out: AtomicFile, piece: str, options: argparse.Namespace) -> None:
    out.write(for_stdout(piece, is_text=options.format == "text") if options.out == STDIN else piece)


def _digest(book: Book) -> str:
    form = [book.title, book.text, [(heading, spans, sorted(marks)) for heading, spans, marks in book.chapters]]
    return hashlib.sha256(json.dumps(form).encode("ascii")).hexdigest()[:16]

"""Books in Markdown, whose blocks `markdown-it-py` finds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from narrative_twins.extras import check_extra
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.parts import Part, is_break, is_verse, make_book, wrap_width
from narrative_twins.stories.windows import Span

_FRONT = re.compile(
    r"\A---[ \t]*\r?\n(?P<fields>.*?)^(?:---|\.\.\.)[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE
)
_TITLE = re.compile(r"^title:[ \t]*(?P<mark>[\"']?)(?P<title>.*\S)(?P=mark)[ \t\r]*$", re.MULTILINE)
_LINE_END = re.compile(r"\r\n?|\n")


def markdown_book(text: str) -> Book:
    """The book in a Markdown text, see `read_book`; raises a `ValueError` if it has no paragraphs,
    or if a library is missing."""
    front = _FRONT.match(text)
    title = _TITLE.search(front["fields"]) if front else None
    return make_book(
        text, _parts(text, front.end() if front else 0), title["title"] if title else None
    )


def _parts(text: str, start: int) -> Iterator[Part]:
    try:
        check_extra("books")
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise ValueError(f"is Markdown; {error}; or read it as plain text") from None

    # Indented paragraphs of stories are no code. Spans are of the text as it is, so nothing within
    # lines is parsed.
    parser = MarkdownIt("commonmark").disable(["code", "inline"])
    edges = [start, *(end.end() for end in _LINE_END.finditer(text, start)), len(text)]
    width = wrap_width(stop - start for start, stop in zip(edges, edges[1:], strict=False))
    before, level = "", 1
    for token in parser.parse(text[start:]):
        first, last = token.map or (0, 0)
        lines = list(_located(text, edges[first : last + 1], token.content.split("\n")))
        span = (lines[0][0], lines[-1][1]) if lines else (edges[first], edges[first])
        if token.type == "hr" or (
            token.type == "heading_open" and text[edges[first] : edges[last]].strip() == "#"
        ):
            yield Part("break", span)
        elif token.type == "inline" and before == "heading_open" and lines:
            yield Part("heading", span, level)
        elif token.type == "inline" and lines:
            words = [text[lo:hi] for lo, hi in lines]
            if len(lines) == 1 and is_break(words[0]):
                yield Part("break", span)
            else:
                yield from (
                    Part("paragraph", line)
                    for line in (lines if is_verse(words, width) else [span])
                )
        elif token.type == "fence":
            yield from (Part("paragraph", line) for line in lines)
        elif token.type == "html_block":
            yield Part("break" if token.content.lower().startswith("<hr") else "other", span)
        before = token.type
        level = int(token.tag[1:]) if before == "heading_open" else level


def _located(text: str, edges: Sequence[int], content: Sequence[str]) -> Iterator[Span]:
    """The spans of the lines of a block, without the marks before them, such as those of lists and
    quotations."""
    at = 0
    for lo, hi in zip(edges, edges[1:], strict=False):
        line = content[at].strip() if at < len(content) else ""
        start = text.find(line, lo, hi) if line else -1
        if start >= 0:
            yield start, start + len(line)
            at += 1
        elif not line:
            at += 1

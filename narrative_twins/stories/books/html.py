"""Books in HTML, and the blocks of an HTML document, of which EPUB files consist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from narrative_twins.stories.books.blocks import Block, book_of_blocks
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.markup import parse_html

Labels = Mapping[str, Sequence[tuple[str, int]]]

NOT_THE_STORY = frozenset(
    """
    toc landmarks page-list loi lot lov loa cover titlepage halftitlepage copyright-page colophon imprint imprimatur
    index bibliography glossary other-credits footnote footnotes endnote endnotes rearnote rearnotes noteref pagebreak
    backlink annoref
    """.split()
)
"""Values of `epub:type`, and with `doc-` before them of `role`, of what is not the text of a
story."""
_SKIPPED_CLASSES = frozenset(
    "pagenum pageno pagebreak page-number pg-boilerplate footnote footnotes fnanchor".split()
)
_SKIPPED_IDS = frozenset(["pg-header", "pg-footer"])
_SKIPPED = frozenset(
    """
    script style template noscript svg math nav aside figcaption audio video iframe object button select textarea
    rt rp del map canvas
    """.split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    """
    html head body p div section article main header footer blockquote ul ol li dl dt dd table caption thead tbody tfoot
    tr figure pre address center fieldset form details summary hgroup title hr
    """.split()
)
_LISTS = frozenset(["tr", "li", "dd", "dt"])
_SPACES = re.compile(r"[ \t\n\r\f]+")
_NOTE = re.compile(r"\s*[\[(]?(?:\d{1,4}|[*†‡§]{1,3})[\])]?\s*")
_NONE: Mapping[str, str] = MappingProxyType({})
_NO_LABELS: Labels = MappingProxyType({})
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)


def html_book(data: bytes) -> Book:
    """The book in an HTML file, see `read_book`; raises a `ValueError` that says what is wrong with
    it."""
    target = HtmlBlocks()
    parse_html(data, target)
    return book_of_blocks(target.finished(), target.title)


class HtmlBlocks:
    """The blocks of an HTML or XHTML document, as a target of `parse_html` or `parse_xml`.

    Args:
        labels: the entries of a table of contents, text and level, by the id of the element they
            lead to; by the empty string those for the document.

    Attributes:
        title: the title of the document, if it has one.
    """

    def __init__(self, labels: Labels = _NO_LABELS) -> None:
        self.title: str | None = None
        self._labels = dict(labels)
        self._blocks = list[Block]()
        self._lines: list[list[str]] = [[]]
        self._skipped = 0  # depth in an element that is skipped
        self._heading: int | None = None
        self._in_title = self._is_kept = False
        self._cells = 0  # depth in rows and items of lists
        self._linked: tuple[int, int] | None = None  # where the text of a link begins: line, piece
        self._depth_of_link = 0
        self._in_links = 0  # letters and digits of the block that are in links
        self._add_labels("")

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        name = _local(tag)
        values = {_local(key): value for key, value in attributes.items()} if attributes else _NONE
        if self._linked is not None:
            self._depth_of_link += 1
        if self._skipped or _is_skipped(name, values):
            self._skipped += 1
            return
        if name in _BLOCKS or name in _HEADINGS:
            self._flush()
        if self._labels and values:
            self._add_labels(values.get("id") or values.get("name", ""))
        self._heading = _HEADINGS.get(name, self._heading)
        self._is_kept |= name == "pre"
        self._in_title |= name == "title"
        self._cells += name in _LISTS
        if name == "br":
            self._lines.append([])
        elif name == "hr":
            self._blocks.append(Block("break"))
        elif name in ("td", "th"):
            self._lines[-1].append(" ")
        elif (
            name == "a"
            and self._linked is None
            and not values.get("href", ":").partition("#")[0].count(":")
        ):
            self._linked, self._depth_of_link = (len(self._lines) - 1, len(self._lines[-1])), 0

    def end(self, tag: str) -> None:
        """An element ends."""
        name = _local(tag)
        if self._linked is not None:
            self._depth_of_link -= 1
            if self._depth_of_link < 0:
                self._end_link()
        if self._skipped:
            self._skipped -= 1
            return
        if name in _BLOCKS or name in _HEADINGS:
            self._flush("blank" if name == "p" else None)
        self._heading = None if name in _HEADINGS else self._heading
        self._is_kept &= name != "pre"
        self._in_title &= name != "title"
        self._cells -= name in _LISTS

    def data(self, text: str) -> None:
        """Text."""
        if self._skipped:
            return
        first, *more = text.split("\n") if self._is_kept else [text]
        self._lines[-1].append(first)
        self._lines += [[line] for line in more]

    def finished(self) -> list[Block]:
        """The blocks, at the end of the document."""
        self._flush()
        return self._blocks

    def _end_link(self) -> None:
        text, (line, piece) = self._link_text(), self._linked or (0, 0)
        self._linked = None
        before = [*self._lines[:line], self._lines[line][:piece]]
        if (
            _NOTE.fullmatch(text)
            and self._heading is None
            and not self._cells
            and _has_text(before)
        ):
            del self._lines[line][piece:], self._lines[line + 1 :]
        else:
            self._in_links += sum(map(str.isalnum, text))

    def _link_text(self) -> str:
        """The text of the link so far, in this block."""
        if self._linked is None:
            return ""
        line, piece = self._linked
        return "".join(
            [
                *self._lines[line][piece:],
                *(text for texts in self._lines[line + 1 :] for text in texts),
            ]
        )

    def _add_labels(self, key: str) -> None:
        # A label within a paragraph can't be the heading of what follows.
        if self._labels.get(key) and self._heading is None and not _has_text(self._lines):
            self._blocks += [
                Block("label", (text,), level) for text, level in self._labels.pop(key)
            ]

    def _flush(self, empty: Literal["blank"] | None = None) -> None:
        """End the block; an empty one is a blank if it was a paragraph."""
        if self._lines == [[]] and not empty:
            return
        lines = [_SPACES.sub(" ", "".join(pieces)).strip() for pieces in self._lines]
        letters = sum(map(str.isalpha, "".join(lines)))
        linked = self._in_links + sum(map(str.isalnum, self._link_text()))
        self._lines, self._in_links = [[]], 0
        if self._linked is not None:  # a link around blocks
            self._linked = (0, 0)
        if self._in_title:
            self.title = self.title or " ".join(filter(None, lines)) or None
        elif self._heading is not None:
            self._blocks += (
                [Block("heading", tuple(filter(None, lines)), self._heading)] if any(lines) else []
            )
        elif linked and (linked >= letters or self._cells):
            self._blocks.append(Block("other"))  # an entry of a table of contents
        elif any(lines):
            # An empty line, of two line breaks, ends a paragraph.
            groups = "\n".join(lines).strip("\n").split("\n\n")
            self._blocks += [
                Block("paragraph", tuple(filter(None, group.split("\n"))))
                for group in groups
                if group
            ]
        elif empty:
            self._blocks.append(Block("blank"))


def _has_text(lines: Iterable[Sequence[str]]) -> bool:
    return any(text.strip() for pieces in lines for text in pieces)


def _local(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition("}")[2].rpartition(":")[2].lower()


def _is_skipped(name: str, values: Mapping[str, str]) -> bool:
    if not values:
        return name in _SKIPPED
    if name in _SKIPPED or "hidden" in values or values.get("id") in _SKIPPED_IDS:
        return True
    roles = {
        role.removeprefix("doc-")
        for role in values.get("role", "").split()
        if role.startswith("doc-")
    }
    types = {*values.get("type", "").lower().split(), *roles}
    classes = {*values.get("class", "").lower().split()}
    return bool(
        types & NOT_THE_STORY
        or classes & _SKIPPED_CLASSES
        or _HIDDEN.search(values.get("style", ""))
    )

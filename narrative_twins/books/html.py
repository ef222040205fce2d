"""Books in HTML, and the blocks of an HTML document, as in EPUB files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from narrative_twins.books.blocks import CONTENTS, LICENCE, NOTE, PICTURE, Block, letters_of
from narrative_twins.books.book import Book
from narrative_twins.books.chapters import book_of_blocks
from narrative_twins.books.markup import elements, local_name, parse_html, text_of

Entries = Mapping[str, Sequence[tuple[str, int]]]
"""The entries of a table of contents, text and level, by the id of the element they lead to; by the
empty string those for the document."""

LEFT_OUT = "{narrative_twins}left-out"
"""The attribute by which readers of other formats say why an element is left out."""
NAVIGATION, PAGE_NUMBER = "navigation", "page numbers"
"""Reasons why parts of a document are left out, in addition to the reasons in `blocks`."""
NOT_THE_STORY = {
    **dict.fromkeys("toc landmarks page-list loi lot lov loa".split(), NAVIGATION),
    **dict.fromkeys(
        "footnote footnotes endnote endnotes rearnote rearnotes noteref annoref backlink".split(),
        NOTE,
    ),
    "pagebreak": PAGE_NUMBER,
    **{
        kind: kind
        for kind in """
        cover titlepage halftitlepage copyright-page dedication colophon imprint imprimatur index
        bibliography glossary other-credits
        """.split()
    },
}
"""The reason to leave out an element, by its `epub:type`, or by its `role` without `doc-`."""
_SKIPPED_CLASSES = {
    **dict.fromkeys("pagenum pageno pagebreak page-number".split(), PAGE_NUMBER),
    **dict.fromkeys("footnote footnotes fnanchor".split(), NOTE),
    "pg-boilerplate": LICENCE,
}
_SKIPPED_IDS = dict.fromkeys(["pg-header", "pg-footer"], LICENCE)
_SKIPPED = {
    **dict.fromkeys("script style template title".split(), ""),  # no text of a page
    **dict.fromkeys(
        "noscript audio video iframe object button select textarea map".split(), "hidden"
    ),
    **{"svg": PICTURE, "canvas": PICTURE, "figcaption": "captions", "math": "formulas"},
    **{"nav": NAVIGATION, "aside": "asides", "del": "deleted", "rt": "ruby", "rp": "ruby"},
}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LOWEST = 7  # the level of a title in a group of headings that is no heading by itself
_BLOCKS = frozenset(
    """
    html head body p div section article main header footer blockquote ul ol li dl dt dd table
    caption thead tbody tfoot tr figure pre address center fieldset form details summary hgroup
    hr h1 h2 h3 h4 h5 h6
    """.split()
)
_CELLS = frozenset(["tr", "li", "dd", "dt"])
_LINK = "link"  # the name of an open `a` that leads to a place in the book
_SPACES = re.compile(r"[ \t\n\r\f]+")
_NOTE = re.compile(r"\s*[\[(]?(?:\d{1,4}|[*†‡§]{1,3})[\])]?\s*")
_ENDS = tuple(".,;:!?\"'”’»)…")
# What is before a number in smaller type that is the mark of a note: not one as in "10 to the 2nd".
_BEFORE_NOTE = re.compile(r"(?:[^\W\d_]{2}|[.,;:!?…\"'”’»)\]])\Z")
_INITIAL = re.compile(r"\A([\"'“‘«]?(?![AIO])[^\W\d_]) (?=[^\W\d_])")
_INITIAL_CLASS = re.compile(r"drop|initial|\bcaps?\b|first-?letter", re.IGNORECASE)
_DIRECTION = re.compile(r"^stage-?dir", re.IGNORECASE)  # style sheets add the brackets
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)


def html_book(data: bytes) -> Book:
    """Return the book in an HTML file, see `read_book`. Raises `ValueError` for an invalid file."""
    tree = parse_html(data)
    title = next((title for name in elements(tree, "title") if (title := text_of(name))), None)
    return book_of_blocks(html_blocks(tree), title)


def html_blocks(tree: Any, entries: Entries = MappingProxyType({})) -> list[Block]:
    """Return the blocks of an HTML document in order. `entries` has the entries of the table of
    contents that lead into the document; each becomes a block."""
    return _HtmlReader(tree, entries).blocks


class _HtmlReader:
    """Reads the elements of an HTML document, in order, into the list `blocks`. Text is added to
    the open block until an element ends it."""

    def __init__(self, tree: Any, entries: Entries) -> None:
        from lxml import etree

        self.blocks: list[Block] = []
        self._entries = dict(entries)
        self._open: list[str] = []  # the names of the open elements; "" for one that is left out
        self._heading = 0  # the level of the open heading; it ends with any heading inside
        # Of the open block: its text, which begins with a letter or mark, the letters of it in
        # links, and whether it has an initial.
        self._pieces: list[str] = []
        self._linked, self._drop = 0, False
        self._add_entries("")
        walk = etree.iterwalk(tree, ("start", "end"))
        for event, element in walk:
            if event == "end":
                self._end_element(element)
                self._add_text(element.tail)
            elif (reason := self._start_element(element)) is None:
                self._add_text(element.text)
            else:
                walk.skip_subtree()
                if reason and (words := text_of(element)):
                    self.blocks.append(Block("left out", (words,), reason=reason))
        self._end_block()

    def _start_element(self, element: Any) -> str | None:
        """Read the start of an element. Return why to leave the element out, or None to keep it."""
        name = local_name(element.tag)
        values = {local_name(key): value for key, value in element.items()}
        is_link = name == "a" and ":" not in values.get("href", ":").partition("#")[0]
        is_outer = (is_link or name == "sup") and {_LINK, "sup"}.isdisjoint(self._open)
        reason = element.get(LEFT_OUT) or _reason(name, values)
        if reason is None and is_outer and self._is_note(element, name):
            reason = NOTE
        if reason is not None:
            self._open.append("")
            return reason
        self._start_text(name, values)
        self._open.append(_LINK if is_link and is_outer else name)
        return None

    def _start_text(self, name: str, values: Mapping[str, str]) -> None:
        """Begin the text of an element that is kept, in the open block or in a new one."""
        if name in _BLOCKS:
            self._end_block()
        self._add_entries(values.get("id") or values.get("name", ""))
        if name == "hr":
            self.blocks.append(Block("break"))
        elif name in ("br", "td", "th"):
            self._pieces += ["\n" if name == "br" else " "] * bool(self._pieces)
        elif name == "img" and len(values.get("alt", "")) == 1:
            self._add_text(values["alt"])
        form = values.get("class", "")
        if not self._pieces:
            self._drop = self._drop or _INITIAL_CLASS.search(form) is not None
        self._pieces += ["["] * bool(_DIRECTION.search(form))
        self._heading = _HEADINGS.get(name, self._heading)

    def _end_element(self, element: Any) -> None:
        """End an element, and the open block if the element is a block."""
        name = self._open[-1]
        if name and _DIRECTION.search(element.get("class", "")):
            self._pieces.append("]")
        if name in _BLOCKS:
            self._end_block(name)
        self._heading = 0 if name in _HEADINGS else self._heading
        self._open.pop()

    def _add_text(self, text: str | None) -> None:
        """Add text to the open block, without white space at the beginning of the block."""
        text = (text or "").replace("\u00ad", "")  # where a word may be divided
        if text and (self._pieces or not text.isspace()):
            self._pieces.append(text if "pre" in self._open else _SPACES.sub(" ", text))
            self._linked += len(letters_of(text)) if _LINK in self._open else 0

    def _is_note(self, element: Any, name: str) -> bool:
        """Return whether a link (`a`) or superscript (`sup`) in a paragraph is a mark of a note."""
        before = "".join(self._pieces[-2:])
        if not before or self._heading:
            return False
        if name == "sup":
            is_apart = _BEFORE_NOTE.search(before) is not None
        else:  # in a cell it may be the number of a chapter
            is_apart = _CELLS.isdisjoint(self._open) or before.endswith(_ENDS)
        return is_apart and _NOTE.fullmatch("".join(element.itertext())) is not None

    def _add_entries(self, key: str) -> None:
        """Add the entries for the element with the id `key` as blocks, unless a block is open."""
        # An entry within a paragraph can't be the heading of what follows.
        if key in self._entries and not self._heading and not self._pieces:
            for text, level in self._entries.pop(key):
                self.blocks.append(Block("entry", (text,), level))

    def _end_block(self, ended: str = "") -> None:
        """End the open block, and add it to `blocks`. An empty block is a break or a blank if
        `ended`, the name of the element that ends here, is a heading or `p`."""
        text, linked, drop = "".join(self._pieces), self._linked, self._drop
        self._pieces, self._linked, self._drop = [], 0, False
        lines = [_SPACES.sub(" ", line).strip() for line in text.split("\n")]
        if drop:
            lines[0] = _INITIAL.sub(r"\1", lines[0], count=1)
        words = tuple(filter(None, lines))
        if words and (self._heading or "hgroup" in self._open):
            self.blocks.append(Block("heading", words, self._heading or _LOWEST))
        elif linked and linked >= sum(map(str.isalpha, text)):
            # Only links: it may be an entry of a table of contents, also where no title says so.
            self.blocks.append(Block("paragraph", words, reason=CONTENTS))
        elif words:
            # An empty line, of two line breaks, ends a paragraph.
            for group in filter(None, "\n".join(lines).strip("\n").split("\n\n")):
                part = tuple(filter(None, group.split("\n")))
                self.blocks.append(Block("paragraph", part))
        elif ended in _HEADINGS:
            self.blocks.append(Block("break"))
        elif ended == "p":
            self.blocks.append(Block("blank"))


def _reason(name: str, values: Mapping[str, str]) -> str | None:
    """Return the reason to leave out an element by its name and attributes (`values`): empty for an
    element without readable text, such as `script`, and None for one that stays."""
    roles = values.get("role", "").split()
    kinds = [*values.get("type", "").lower().split()]
    kinds += [role.removeprefix("doc-") for role in roles if role.startswith("doc-")]
    reasons = [
        _SKIPPED.get(name),
        "hidden" if "hidden" in values or _HIDDEN.search(values.get("style", "")) else None,
        _SKIPPED_IDS.get(values.get("id", "")),
        *map(NOT_THE_STORY.get, kinds),
        *map(_SKIPPED_CLASSES.get, values.get("class", "").lower().split()),
    ]
    return next((reason for reason in reasons if reason is not None), None)

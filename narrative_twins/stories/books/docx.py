"""Books in Word files (docx)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from narrative_twins.stories.books.archive import Archive, inner_path
from narrative_twins.stories.books.blocks import Block, book_of_blocks
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.html import local_name

_HEADING = re.compile(r"heading ?([1-9])")
_BODY_LEVEL = 9  # the outline level of what is not a heading
# Text that was moved or deleted, earlier styles, pictures with text of their own, and copies for
# older programs.
_SKIPPED = frozenset(
    "movefrom del pprchange drawing pict object alternatecontent rubypr rt".split()
)
_LEFT_OUT = ("subtitle", "toc ", "table of figures", "index ")  # beginnings of names of styles


class _Style(NamedTuple):
    """A style of paragraphs: its name in lower case, the style that it is based on, and its outline
    level."""

    name: str
    base: str = ""
    level: int | None = None


def docx_book(data: bytes) -> Book:
    """The book in a Word file, see `read_book`; raises a `ValueError` that says what is wrong with
    it."""
    archive = Archive(data)
    main = "word/document.xml"
    if "_rels/.rels" in archive:
        for relation in archive.xml("_rels/.rels"):
            if relation.get("Type", "").endswith("/officeDocument"):
                main = inner_path("", relation.get("Target", "").lstrip("/"))[0]
    if main not in archive:
        raise ValueError(
            f"is not a Word document: it has no {main} inside; if it is another ZIP archive, unpack"
            " it"
        )
    styles_file = inner_path(main, "styles.xml")[0]
    styles = _styles(archive.xml(styles_file)) if styles_file in archive else {}
    blocks: list[Block] = []
    title = ""
    if "docProps/core.xml" in archive:
        names = archive.xml("docProps/core.xml").iter("{http://purl.org/dc/elements/1.1/}title")
        title = next((" ".join(name.text.split()) for name in names if name.text), "")
    is_titled = False
    for lines, style, has_border in _paragraphs(archive.xml(main), styles):
        if not lines:
            blocks.append(Block("break" if has_border else "blank"))
        elif style.name == "title" and not is_titled:
            title = title or " ".join(lines)
            is_titled = True
        elif style.name.startswith(_LEFT_OUT):
            blocks.append(Block("other"))
        elif style.level is not None and style.level < _BODY_LEVEL:
            blocks.append(Block("heading", lines, style.level + 1))
        else:
            blocks.append(Block("paragraph", lines))
    return book_of_blocks(blocks, title or None)


def _paragraphs(
    document: Any, styles: Mapping[str, _Style]
) -> Iterator[tuple[tuple[str, ...], _Style, bool]]:
    """The lines of each paragraph, its style, and whether it has a border."""
    from lxml import etree

    pieces: list[str] = []
    style = _Style("")
    has_border = False
    walker = etree.iterwalk(document, events=("start", "end"))
    for event, element in walker:
        name = local_name(element.tag)
        if event == "end":
            if name == "p":
                lines = map(str.strip, "".join(pieces).split("\n"))
                yield tuple(filter(None, lines)), style, has_border
                pieces = []
        elif name in _SKIPPED:
            walker.skip_subtree()
        elif name == "p":
            pieces, style, has_border = [], _Style(""), False
        elif name == "pstyle":
            key = _value(element)
            style = styles.get(key) or _style(key)
        elif name == "outlinelvl":
            style = style._replace(level=_level(_value(element)))
        elif name in ("pbdr", "hr"):
            has_border = True
        elif name == "t":
            pieces.append((element.text or "").replace("\n", " "))
        elif name == "tab":
            pieces.append(" ")
        elif name == "nobreakhyphen":
            pieces.append("-")
        elif name == "cr" or (name == "br" and _value(element, "type") in ("", "textWrapping")):
            pieces.append("\n")


def _styles(tree: Any) -> dict[str, _Style]:
    """The styles by their ids, each with the outline level of the first style that it is based on
    and has one."""
    found: dict[str, _Style] = {}
    for style in tree:
        values = {local_name(element.tag): _value(element) for element in style.iter()}
        if key := _value(style, "styleId"):
            own = _style(values.get("name") or key)
            level = _level(values.get("outlinelvl", "")) if own.level is None else own.level
            found[key] = _Style(own.name, values.get("basedon", ""), level)
    done: set[str] = set()
    for key in found:
        chain: list[str] = []
        while key in found and key not in done and found[key].level is None:
            done.add(key)
            chain.append(key)
            key = found[key].base
        for passed in chain:
            found[passed] = found[passed]._replace(level=found[key].level if key in found else None)
    return found


def _style(name: str) -> _Style:
    """A style by its name alone."""
    heading = _HEADING.fullmatch(name.lower())
    return _Style(name.lower(), level=int(heading[1]) - 1 if heading else None)


def _value(element: Any, name: str = "val") -> str:
    """An attribute, in whichever namespace."""
    values = (value for key, value in element.items() if local_name(key) == name.lower())
    return next(values, "")


def _level(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 3 else None

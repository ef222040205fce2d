"""Books in Word files (docx)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from narrative_twins.stories.books.archive import Archive, inner_path
from narrative_twins.stories.books.blocks import Block, book_of_blocks
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.html import attribute, local_name

_HEADING = re.compile(r"heading ?([1-9])")
_BODY_LEVEL = 9  # the outline level of what is not a heading
_MOST_BASES = 20  # styles that a style is based on, one by another; Word allows ten
# Text that was moved or deleted, earlier styles, pictures with text of their own, and copies for
# older programs.
_SKIPPED = frozenset(
    "movefrom del pprchange drawing pict object alternatecontent rubypr rt".split()
)
_LEFT_OUT = ("subtitle", "toc ", "table of figures", "index ")  # beginnings of names of styles


class _Style(NamedTuple):
    """A style of paragraphs: its name in lower case, its outline level, and the id of the style
    that it is based on."""

    name: str
    level: int | None = None
    base: str = ""


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
        problem = f"is not a Word document: it has no {main} inside"
        raise ValueError(f"{problem}; if it is another ZIP archive, unpack it")
    styles_file = inner_path(main, "styles.xml")[0]
    styles = _styles(archive.xml(styles_file)) if styles_file in archive else {}
    title = ""
    if "docProps/core.xml" in archive:
        names = archive.xml("docProps/core.xml").iter("{http://purl.org/dc/elements/1.1/}title")
        title = next((" ".join(name.text.split()) for name in names if name.text), "")
    blocks: list[Block] = []
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
            key = attribute(element, "val")
            style = styles.get(key) or _named(key)
        elif name == "outlinelvl":
            style = style._replace(level=_level(attribute(element, "val")))
        elif name in ("pbdr", "hr"):
            has_border = True
        elif name == "t":
            pieces.append((element.text or "").replace("\n", " "))
        elif name == "tab":
            pieces.append(" ")
        elif name == "nobreakhyphen":
            pieces.append("-")
        elif name == "cr" or (name == "br" and attribute(element, "type") in ("", "textWrapping")):
            pieces.append("\n")


def _styles(tree: Any) -> dict[str, _Style]:
    """The styles by their ids, each with the outline level of the first style that it is based on
    and has one."""
    found: dict[str, _Style] = {}
    for style in tree:
        values = {local_name(child.tag): attribute(child, "val") for child in style.iter()}
        if key := attribute(style, "styleid"):
            own = _named(values.get("name") or key)
            level = _level(values.get("outlinelvl", "")) if own.level is None else own.level
            found[key] = _Style(own.name, level, values.get("basedon", ""))
    return {key: style._replace(level=_inherited(style, found)) for key, style in found.items()}


def _inherited(style: _Style, styles: Mapping[str, _Style]) -> int | None:
    for _ in range(_MOST_BASES):
        if style.level is not None or style.base not in styles:
            break
        style = styles[style.base]
    return style.level


def _named(name: str) -> _Style:
    """A style by its name alone."""
    heading = _HEADING.fullmatch(name.lower())
    return _Style(name.lower(), int(heading[1]) - 1 if heading else None)


def _level(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 3 else None

"""Books in Word files (docx)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from narrative_twins.books.archive import Archive, elements, inner_path
from narrative_twins.books.blocks import CONTENTS, Block, Book, book_of_blocks
from narrative_twins.books.markup import attribute, local_name

_HEADING = re.compile(r"heading ?([1-9])")
_LEVELS = {str(level): level for level in range(10)}  # outline levels; 9 is no heading
_MOST_BASES = 20  # styles that a style is based on, one by another; Word allows ten
# Text that was moved or deleted, earlier styles, pictures with text of their own, and copies for
# older programs.
_SKIPPED = "moveFrom del pPrChange drawing pict object AlternateContent rubyPr rt".split()
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
    from lxml import etree

    archive = Archive(data)
    main = "word/document.xml"
    if "_rels/.rels" in archive:
        for relation in archive.parsed("_rels/.rels"):
            if relation.get("Type", "").endswith("/officeDocument"):
                main = inner_path("", relation.get("Target", "").lstrip("/"))[0]
    if main not in archive:
        problem = f"is not a Word document: it has no {main} inside"
        raise ValueError(f"{problem}; if it is another ZIP archive, unpack it")
    styles_file = inner_path(main, "styles.xml")[0]
    styles = _styles(archive.parsed(styles_file)) if styles_file in archive else {}
    title = ""
    if "docProps/core.xml" in archive:
        names = elements(archive.parsed("docProps/core.xml"), "title")
        title = next((" ".join(name.text.split()) for name in names if name.text), "")
    document, blocks, is_titled = archive.parsed(main), list[Block](), False
    etree.strip_elements(document, *(f"{{*}}{name}" for name in _SKIPPED), with_tail=False)
    for paragraph in document.iter("{*}p"):
        lines, style = _lines(paragraph), _style_of(paragraph, styles)
        if not lines:
            is_ruled = paragraph.find(".//{*}pBdr") is not None
            blocks.append(Block("break" if is_ruled else "blank"))
        elif style.name == "title" and not is_titled:
            title, is_titled = title or " ".join(lines), True
        elif style.name.startswith(_LEFT_OUT):
            blocks.append(Block("left out", lines, reason=CONTENTS))
        elif style.level is not None and style.level < 9:
            blocks.append(Block("heading", lines, style.level + 1))
        else:
            blocks.append(Block("paragraph", lines))
    return book_of_blocks(blocks, title or None)


def _lines(paragraph: Any) -> tuple[str, ...]:
    pieces: list[str] = []
    for element in paragraph.iter("{*}t", "{*}tab", "{*}noBreakHyphen", "{*}cr", "{*}br"):
        name = local_name(element.tag)
        if name == "t":
            pieces.append((element.text or "").replace("\n", " "))
        elif name != "br" or attribute(element, "type") in ("", "textWrapping"):
            pieces.append({"tab": " ", "nobreakhyphen": "-"}.get(name, "\n"))
    return tuple(filter(None, map(str.strip, "".join(pieces).split("\n"))))


def _style_of(paragraph: Any, styles: dict[str, _Style]) -> _Style:
    """The style of a paragraph, with an outline level of its own if it has one."""
    style = _Style("")
    if (element := paragraph.find("{*}pPr/{*}pStyle")) is not None:
        key = attribute(element, "val")
        style = styles.get(key) or _named(key)
    if (element := paragraph.find("{*}pPr/{*}outlineLvl")) is not None:
        style = style._replace(level=_LEVELS.get(attribute(element, "val")))
    return style


def _styles(tree: Any) -> dict[str, _Style]:
    """The styles by their ids, each with the outline level of the first style that it is based on
    and has one."""
    styles: dict[str, _Style] = {}
    for style in tree:
        values = {local_name(child.tag): attribute(child, "val") for child in style.iter()}
        key = attribute(style, "styleid")
        name, level, _ = _named(values.get("name") or key)
        level = _LEVELS.get(values.get("outlinelvl", "")) if level is None else level
        styles[key] = _Style(name, level, values.get("basedon", ""))
    for key, style in styles.items():
        based_on = style
        for _ in range(_MOST_BASES):
            if based_on.level is None:
                based_on = styles.get(based_on.base, based_on)
        styles[key] = style._replace(level=based_on.level)
    return styles


def _named(name: str) -> _Style:
    """A style by its name alone."""
    heading = _HEADING.fullmatch(name.lower())
    return _Style(name.lower(), int(heading[1]) - 1 if heading else None)

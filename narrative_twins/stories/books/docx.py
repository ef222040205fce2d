"""Books in Word files (docx)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element

from narrative_twins.stories.books.archive import Archive, inner_path
from narrative_twins.stories.books.blocks import Block, book_of_blocks
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.markup import parse_xml, xml_tree

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STRICT = "{http://purl.oclc.org/ooxml/wordprocessingml/main}"
_HEADING = re.compile(r"heading ([1-9])")
_BODY_LEVEL = 9  # the outline level of what is no heading
# Text that was moved or deleted, pictures with text of their own, and copies for older programs.
_SKIPPED = frozenset(
    ["moveFrom", "del", "drawing", "pict", "object", "AlternateContent", "rubyPr", "rt"]
)


class _Style(NamedTuple):
    name: str
    base: str | None
    outline: int | None


def docx_book(data: bytes) -> Book:
    """The book in a Word file, see `read_book`; raises a `ValueError` that says what is wrong with
    it."""
    archive = Archive(data)
    main = "word/document.xml"
    if "_rels/.rels" in archive:
        for relation in _tree(archive, "_rels/.rels"):
            if relation.get("Type", "").endswith("/officeDocument"):
                main = inner_path("", relation.get("Target", "").lstrip("/"))[0]
    if main not in archive:
        raise ValueError(
            f"is no Word document: it has no {main} inside; if it is another ZIP archive, unpack it"
        )
    styles_file = inner_path(main, "styles.xml")[0]
    styles = _styles(_tree(archive, styles_file)) if styles_file in archive else {}
    target = _Paragraphs(styles)
    try:
        parse_xml(archive.read(main), target)
    except ValueError as error:
        raise ValueError(_problem(main, error)) from None
    title = None
    if "docProps/core.xml" in archive:
        names = _tree(archive, "docProps/core.xml").iter("{http://purl.org/dc/elements/1.1/}title")
        title = next((" ".join(name.text.split()) for name in names if name.text), None)
    return book_of_blocks(target.blocks, title or target.title)


class _Paragraphs:
    """The blocks of the main document, as a target of `parse_xml`."""

    def __init__(self, styles: Mapping[str, _Style]) -> None:
        self.blocks = list[Block]()
        self.title: str | None = None
        self._styles = styles
        self._skipped = 0
        self._in_text = self._has_border = False
        self._style: str | None = None
        self._outline: int | None = None
        self._lines: list[list[str]] = [[]]

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        name = _local(tag)
        if self._skipped or name in _SKIPPED:
            self._skipped += 1
        elif name == "p":
            self._lines, self._style, self._outline, self._has_border = [[]], None, None, False
        elif name == "pStyle":
            self._style = _value(attributes)
        elif name == "outlineLvl":
            self._outline = _level(_value(attributes))
        elif name in ("pBdr", "hr"):
            self._has_border = True
        elif name == "t":
            self._in_text = True
        elif name == "tab":
            self._lines[-1].append(" ")
        elif name == "noBreakHyphen":
            self._lines[-1].append("-")
        elif name == "cr" or (
            name == "br" and (_value(attributes, "type") or "textWrapping") == "textWrapping"
        ):
            self._lines.append([])

    def end(self, tag: str) -> None:
        """An element ends."""
        name = _local(tag)
        if self._skipped:
            self._skipped -= 1
        elif name == "t":
            self._in_text = False
        elif name == "p":
            self._add()

    def data(self, text: str) -> None:
        """Text."""
        if self._in_text and not self._skipped:
            self._lines[-1].append(text)

    def _add(self) -> None:
        lines = tuple(
            line for pieces in self._lines if (line := " ".join("".join(pieces).split(" ")).strip())
        )
        name, outline = self._kind()
        if not lines:
            self.blocks.append(Block("break" if self._has_border else "blank"))
        elif name == "title" and self.title is None:
            self.title = " ".join(lines)
        elif name in ("subtitle", "toc heading", "table of figures") or name.startswith(
            ("toc ", "index ")
        ):
            self.blocks.append(Block("other"))
        elif outline is not None and outline < _BODY_LEVEL:
            self.blocks.append(Block("heading", lines, outline + 1))
        else:
            self.blocks.append(Block("paragraph", lines))
        self._lines = [[]]

    def _kind(self) -> tuple[str, int | None]:
        """The name of the style of the paragraph, and its outline level, by the styles it is based
        on."""
        outline, style, seen = self._outline, self._styles.get(self._style or ""), set[str]()
        name = style.name if style else (self._style or "").lower()
        while style is not None and outline is None and style.name not in seen:
            seen.add(style.name)
            heading = _HEADING.fullmatch(style.name)
            outline = int(heading[1]) - 1 if heading else style.outline
            style = self._styles.get(style.base or "")
        if outline is None and (heading := re.fullmatch(r"heading ?([1-9])", name)):
            outline = int(heading[1]) - 1
        return name, outline


def _styles(tree: Element) -> dict[str, _Style]:
    found: dict[str, _Style] = {}
    for style in tree:
        names = {_local(element.tag): _value(element.attrib) for element in style.iter()}
        key = next((value for key, value in style.items() if _local(key) == "styleId"), None)
        if key:
            name = (names.get("name") or key).lower()
            found[key] = _Style(name, names.get("basedOn"), _level(names.get("outlineLvl")))
    return found


def _tree(archive: Archive, name: str) -> Element:
    try:
        return xml_tree(archive.read(name))
    except ValueError as error:
        raise ValueError(_problem(name, error)) from None


def _problem(name: str, error: ValueError) -> str:
    return str(error) if name in str(error) else f"can't be read: its file {name} {error}"


def _local(name: str) -> str:
    return str(name).rpartition("}")[2]


def _value(attributes: Mapping[str, str], name: str = "val") -> str | None:
    return attributes.get(f"{_WORD}{name}", attributes.get(f"{_STRICT}{name}"))


def _level(value: str | None) -> int | None:
    return (
        int(value)
        if value is not None and value.isascii() and value.isdigit() and len(value) < 3
        else None
    )

"""Books in OpenDocument files (odt), as of LibreOffice, whose elements are renamed to elements of
HTML, and read as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from narrative_twins.books.blocks import Block
from narrative_twins.books.book import Book
from narrative_twins.books.chapters import book_of_blocks
from narrative_twins.books.html import html_blocks
from narrative_twins.books.markup import attribute, elements, local_name, text_of
from narrative_twins.books.zip_archive import Archive

_MARGINS = [f"{edge}{pages}" for edge in ("header", "footer") for pages in ("", "-left", "-first")]
_MAIN, _MANIFEST = "content.xml", "META-INF/manifest.xml"
_DRAWING = "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"
_INDEXES = "table illustration object user alphabetical".split()
_TAGS = {
    "list": "ul",
    **dict.fromkeys(("list-item", "list-header"), "li"),
    **{"table": "table", "table-row": "tr", "table-cell": "td", "section": "div"},
    **{"line-break": "br", "ruby-text": "rt", "tracked-changes": "del", "annotation": "aside"},
    **dict.fromkeys(("table-of-content", "bibliography"), "nav"),
    **dict.fromkeys((f"{kind}-index" for kind in _INDEXES), "nav"),
}
"""The elements of HTML for elements other than paragraphs; those not listed are `span`."""
_PARAGRAPH_TAGS = {
    "subtitle": "nav",
    "horizontal line": "hr",
    **{f"heading {level}": f"h{min(level + 1, 6)}" for level in range(1, 11)},
}
"""The elements of HTML for paragraphs, by their styles; those not listed are `p`."""
_CODE = re.compile(r"_([0-9a-f]{2,4})_")  # a character in the name of a style
_MOST_PARENTS = 20  # styles that a style is based on, one by another


def odt_book(data: bytes) -> Book:
    """Return the book in an OpenDocument text, see `read_book`. Raises `ValueError` for an invalid
    file."""
    archive = Archive(data)
    if _MAIN not in archive:
        problem = f"is not an OpenDocument text: it has no {_MAIN} inside"
        raise ValueError(f"{problem}; if it is another ZIP archive, unpack it")
    if next(elements(archive.optional(_MANIFEST), "encryption-data"), None) is not None:
        raise ValueError("is encrypted; save it without a password")
    document, styles = archive.parsed(_MAIN), archive.optional("styles.xml")
    text = document.find("{*}body/{*}text")
    if text is None:
        raise ValueError("is OpenDocument without a text, perhaps a table; save it as a text")
    names = elements(archive.optional("meta.xml"), "title")
    title = next(filter(None, map(text_of, names)), None)
    blocks = html_blocks(_as_html(text, _Styles((styles, document))))
    for line in (text_of(each) for each in styles.iter() if local_name(each.tag) in _MARGINS):
        blocks.append(Block("left out", (line,), reason="running headers", place="styles.xml"))
    return book_of_blocks(blocks, title, problems=archive.problems)


class _Styles:
    """The styles of a document: `names` gives those that a style is based on, and `hidden` has the
    styles whose text is not shown."""

    def __init__(self, trees: Iterable[Any]) -> None:
        self._parents: dict[str, str] = {}
        self.hidden: set[str] = set()
        for style in (style for tree in trees for style in elements(tree, "style")):
            name = attribute(style, "name")
            self._parents[name] = attribute(style, "parent-style-name")
            if any(attribute(each, "display") == "none" for each in style):
                self.hidden.add(name)

    def names(self, name: str) -> list[str]:
        """Return the name of a style and of the styles that it is based on, in lower case."""
        names: list[str] = []
        while name and len(names) < _MOST_PARENTS:
            names.append(_CODE.sub(lambda code: chr(int(code[1], 16)), name).lower())
            name = self._parents.get(name, "")
        return names


def _as_html(text: Any, styles: _Styles) -> Any:
    """Turn the tree of a text into HTML, in place, and return it."""
    titles = [each for each in elements(text, "p") if "title" in _names(each, styles)]
    title_tag = {"title": "h1" if len(titles) == 1 else "h2"}
    for element in text.iter():
        name, style = local_name(element.tag), attribute(element, "style-name")
        if _DRAWING in element.tag:
            element.tag = "aside"  # pictures and boxes of text
        elif name == "h":
            level = attribute(element, "outline-level")
            element.tag = _PARAGRAPH_TAGS.get(f"heading {level or 1}", "h6")
        elif name == "p":
            tags = map((_PARAGRAPH_TAGS | title_tag).get, _names(element, styles))
            tag = next(filter(None, tags), "p")
            element.tag = "p" if tag == "hr" and text_of(element) else tag
        else:
            element.tag = _TAGS.get(name, "span")
        if name in ("s", "tab"):
            element.text = " "
        element.attrib.clear()
        if name == "note":
            element.set("role", "doc-footnote")
        if style in styles.hidden:
            element.set("hidden", "")
    return text


def _names(paragraph: Any, styles: _Styles) -> list[str]:
    """Return the names of the styles of a paragraph."""
    return styles.names(attribute(paragraph, "style-name"))

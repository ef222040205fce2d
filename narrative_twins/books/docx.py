"""Books in Word files (docx), whose elements are renamed to elements of HTML, and read as HTML."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from narrative_twins.books.blocks import NOTE, Block
from narrative_twins.books.book import Book
from narrative_twins.books.chapters import book_of_blocks
from narrative_twins.books.html import html_blocks
from narrative_twins.books.markup import attribute, elements, local_name, text_of
from narrative_twins.books.zip_archive import Archive, inner_path

_HEADING = re.compile(r"heading ?([1-9])")
_LEVELS = {str(level): level for level in range(10)}  # outline levels; 9 is no heading
_MOST_BASES = 20  # styles that a style is based on, one by another; Word allows ten
_LEFT_OUT = {
    **dict.fromkeys(("movefrom", "del", "deltext"), "del"),
    **dict.fromkeys("drawing pict object alternatecontent".split(), "aside"),
    "rt": "rt",
}
"""Elements whose text is left out, as the elements of HTML that are. Pictures have text of their
own, and copies for older programs."""
_TAGS = _LEFT_OUT | {tag: tag for tag in "p h1 h2 h3 h4 h5 h6 hr nav".split()}
_TEXTS = {"tab": " ", "nobreakhyphen": "-"}
_OTHERS = re.compile(r"(?P<base>.*/)(?P<kind>footnotes|endnotes|comments|header|footer)\d*\.xml")
_REASONS = {"comments": "comments", "header": "running headers", "footer": "running headers"}
_NO = ("0", "false", "off", "none")
_CONTENTS = ("subtitle", "toc ", "table of figures", "index ")  # beginnings of names of styles


_Style: TypeAlias = tuple[str, int | None]
"""The name of a style of paragraphs in lower case, and its outline level, if it has one."""


def docx_book(data: bytes) -> Book:
    """Return the book in a Word file, see `read_book`. Raises `ValueError` for an invalid file."""
    archive = Archive(data)
    main = "word/document.xml"
    if "_rels/.rels" in archive:
        for relation in archive.parsed("_rels/.rels"):
            if relation.get("Type", "").endswith("/officeDocument"):
                main = inner_path("", relation.get("Target", "").lstrip("/"))[0]
    if main not in archive:
        problem = f"is not a Word document: it has no {main} inside"
        raise ValueError(f"{problem}; if it is another ZIP archive, unpack it")
    styles, core = archive.optional(inner_path(main, "styles.xml")[0]), "docProps/core.xml"
    names = elements(archive.optional(core), "title")
    title = next((" ".join(name.text.split()) for name in names if name.text), None)
    blocks = html_blocks(_as_html(archive.parsed(main), _styles(styles)))
    for name in archive.names:
        if (part := _OTHERS.fullmatch(name)) and part["base"] == main[: main.rfind("/") + 1]:
            reason = _REASONS.get(part["kind"], NOTE)
            for paragraph in elements(archive.optional(name), "p"):
                text = text_of(paragraph)
                blocks.append(Block("left out", (text,), reason=reason, place=name))
    return book_of_blocks(blocks, title, problems=archive.problems)


def _as_html(document: Any, styles: dict[str, _Style]) -> Any:
    """Turn the tree of a Word document into HTML, in place, and return it. Elements are renamed: a
    paragraph with the style `Heading 1` becomes `h2`. `styles` has the styles by id."""
    paragraphs = [
        (each, _style_of(each, styles))
        for each in elements(document, "p")
        if not any(local_name(above.tag) in _LEFT_OUT for above in each.iterancestors())
    ]
    titles = sum(name == "title" for _, (name, _) in paragraphs)
    start = None
    for paragraph, style in paragraphs:
        if start is not None:
            start.tag = "span"
            paragraph.insert(0, start)
        start = paragraph if _begins_next(paragraph) else None
        paragraph.tag = "p" if start is not None else _paragraph_tag(paragraph, style, titles)
        # Its tabs and changes would be read as text.
        for properties in paragraph.findall("{*}pPr"):
            paragraph.remove(properties)
    for element in document.iter():
        _rename(element)
    return document


def _begins_next(paragraph: Any) -> bool:
    """Return whether a paragraph is the beginning of the next one: its initial, or a paragraph
    whose end was deleted."""
    initials = (attribute(each, "dropcap") for each in paragraph.iterfind("{*}pPr/*"))
    is_deleted = paragraph.find("{*}pPr/{*}rPr/{*}del") is not None
    return is_deleted or not {"", "none"}.issuperset(initials)


def _paragraph_tag(paragraph: Any, style: _Style, titles: int) -> str:
    """Return the element of HTML for a paragraph. `titles` is how many have the style `Title`."""
    name, level = style
    if name == "title":
        return "h1" if titles == 1 else "h2"
    if name.startswith(_CONTENTS):
        return "nav"
    if level is not None and level < 9:
        return f"h{min(level + 2, 6)}"
    is_line = paragraph.find(".//{*}pBdr") is not None and not text_of(paragraph)
    return "hr" if is_line else "p"


def _rename(element: Any) -> None:
    """Turn an element into one of HTML, with its text if it is of the story."""
    name = local_name(element.tag)
    # A break of pages is no break of lines.
    is_break = name in ("cr", "br") and attribute(element, "type") in ("", "textWrapping")
    hidden = element.find("{*}rPr/{*}vanish") if name == "r" else None
    element.text = element.text if name in ("t", "deltext") else _TEXTS.get(name)
    element.tail = None
    element.tag = "br" if is_break else _TAGS.get(name, "span")
    element.attrib.clear()
    if hidden is not None and attribute(hidden, "val") not in _NO:
        element.set("hidden", "")
    if name == "alternatecontent":
        del element[1:]  # the others are copies


def _style_of(paragraph: Any, styles: dict[str, _Style]) -> _Style:
    """Return the style of a paragraph. An outline level of the paragraph replaces the style's."""
    properties = paragraph.iterfind("{*}pPr/*")
    values = {local_name(each.tag): attribute(each, "val") for each in properties}
    key = values.get("pstyle", "")
    name, level = styles.get(key) or (key.lower(), _level_by_name(key))
    return name, _LEVELS.get(values["outlinelvl"]) if "outlinelvl" in values else level


def _styles(tree: Any) -> dict[str, _Style]:
    """Return the styles in a file `styles.xml` by id. A style without an outline level takes the
    level of the style that it is based on, and so on."""
    styles = {
        attribute(style, "styleid"): {local_name(e.tag): attribute(e, "val") for e in style.iter()}
        for style in tree
        if local_name(style.tag) == "style"
    }

    def level_of(key: str, bases: int = _MOST_BASES) -> int | None:
        """Return the outline level of a style, or else of the nearest of `bases` base styles."""
        style = styles.get(key, {})
        level = _level_by_name(style.get("name") or key)
        level = _LEVELS.get(style.get("outlinelvl", "")) if level is None else level
        if level is None and bases and style:
            return level_of(style.get("basedon", ""), bases - 1)
        return level

    return {key: ((each.get("name") or key).lower(), level_of(key)) for key, each in styles.items()}


def _level_by_name(name: str) -> int | None:
    """Return the outline level by the name of a style: 0 for `heading 1`, None for other names."""
    heading = _HEADING.fullmatch(name.lower())
    return int(heading[1]) - 1 if heading else None

"""Books in Word files (docx), whose paragraphs are read as the HTML that they are converted to."""

from __future__ import annotations

import re
from html import escape
from typing import Any, NamedTuple

from narrative_twins.books.archive import Archive, elements, inner_path
from narrative_twins.books.blocks import NOTE, Block, Book, book_of_blocks
from narrative_twins.books.markup import attribute, html_blocks, local_name

_HEADING = re.compile(r"heading ?([1-9])")
_LEVELS = {str(level): level for level in range(10)}  # outline levels; 9 is no heading
_MOST_BASES = 20  # styles that a style is based on, one by another; Word allows ten
_TAGS = {
    **dict.fromkeys(("movefrom", "del", "deltext"), "del"),
    **dict.fromkeys("drawing pict object alternatecontent".split(), "aside"),
    "rt": "rt",
}
"""Elements whose text is left out, as the elements of HTML that are. Pictures have text of their
own, and copies for older programs."""
_OTHERS = re.compile(r"(?P<base>.*/)(?P<kind>footnotes|endnotes|comments|header|footer)\d*\.xml")
_REASONS = {"comments": "comments", "header": "running headers", "footer": "running headers"}
_NO = ("0", "false", "off", "none")
_CONTENTS = ("subtitle", "toc ", "table of figures", "index ")  # beginnings of names of styles


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
        for relation in archive.parsed("_rels/.rels"):
            if relation.get("Type", "").endswith("/officeDocument"):
                main = inner_path("", relation.get("Target", "").lstrip("/"))[0]
    if main not in archive:
        problem = f"is not a Word document: it has no {main} inside"
        raise ValueError(f"{problem}; if it is another ZIP archive, unpack it")
    styles, core = archive.optional(inner_path(main, "styles.xml")[0]), "docProps/core.xml"
    names = elements(archive.optional(core), "title")
    title = next((" ".join(name.text.split()) for name in names if name.text), None)
    html = _html(archive.parsed(main), _styles(styles))
    blocks = html_blocks(html.encode("utf-8"), {}, is_xml=False).blocks
    for name in archive.names:
        if (part := _OTHERS.fullmatch(name)) and part["base"] == main[: main.rfind("/") + 1]:
            reason = _REASONS.get(part["kind"], NOTE)
            for paragraph in elements(archive.optional(name), "p"):
                text = " ".join("".join(paragraph.itertext()).split())
                blocks.append(Block("left out", (text,), reason=reason, place=name))
    return book_of_blocks(blocks, title, problems=archive.problems)


def _html(document: Any, styles: dict[str, _Style]) -> str:
    """The paragraphs of a document as HTML."""
    paragraphs = [(each, _style_of(each, styles)) for each in elements(document, "p")]
    titles = sum(style.name == "title" for _, style in paragraphs)
    pieces: list[str] = []
    start = ""  # of a paragraph, whose end was deleted, or its initial
    for paragraph, style in paragraphs:
        if any(local_name(each.tag) in _TAGS for each in paragraph.iterancestors()):
            continue
        text = f"{start}{_content(paragraph)}"
        properties = paragraph.find("{*}pPr")
        if properties is not None and (
            properties.find("{*}rPr/{*}del") is not None
            or any(attribute(each, "dropcap") not in ("", "none") for each in properties)
        ):
            start = text
            continue
        start, tag = "", "p"
        if style.name == "title":
            tag = "h1" if titles == 1 else "h2"
        elif style.name.startswith(_CONTENTS):
            tag = "nav"
        elif style.level is not None and style.level < 9:
            tag = f"h{min(style.level + 2, 6)}"
        elif not text and paragraph.find(".//{*}pBdr") is not None:
            tag = "hr"
        pieces.append(f"<{tag}>{text}</{tag}>")
    return "".join([*pieces, f"<p>{start}</p>" * bool(start)])


def _content(paragraph: Any) -> str:
    """The content of a paragraph as HTML."""
    pieces: list[str] = []
    waiting = [paragraph]
    while waiting:
        element = waiting.pop()
        if isinstance(element, str):
            pieces.append(element)
            continue
        name = local_name(element.tag)
        tag = _TAGS.get(name)
        if name == "r" and (hidden := element.find("{*}rPr/{*}vanish")) is not None:
            tag = None if attribute(hidden, "val") in _NO else "span hidden"
        if tag:
            pieces.append(f"<{tag}>")
            waiting.append(f"</{tag.split()[0]}>")
        if name in ("t", "deltext"):
            pieces.append(escape(element.text or ""))
        elif name in ("cr", "br") and attribute(element, "type") in ("", "textWrapping"):
            pieces.append("<br>")
        elif name in ("tab", "nobreakhyphen"):
            pieces.append({"tab": " "}.get(name, "-"))
        elif name == "alternatecontent":
            waiting += element[:1]  # the other is a copy
        elif name != "ppr":
            waiting += reversed(element)
    return "".join(pieces)


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

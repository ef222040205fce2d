"""Books in Word files (docx)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from narrative_twins.books.archive import Archive, elements, inner_path
from narrative_twins.books.blocks import CONTENTS, HEADING, NOTE, Block, Book, book_of_blocks
from narrative_twins.books.markup import attribute, local_name

_HEADING = re.compile(r"heading ?([1-9])")
_LEVELS = {str(level): level for level in range(10)}  # outline levels; 9 is no heading
_MOST_BASES = 20  # styles that a style is based on, one by another; Word allows ten
_SKIPPED = {
    **dict.fromkeys(("movefrom", "del"), "deleted"),
    **dict.fromkeys("drawing pict object alternatecontent".split(), "text boxes"),
    "rt": "ruby",
}
"""Elements whose text is left out, with the reason. Pictures have text of their own, and copies for
older programs."""
_OTHERS = re.compile(r"(?P<base>.*/)(?P<kind>footnotes|endnotes|comments|header|footer)\d*\.xml")
_REASONS = {"comments": "comments", "header": "running headers", "footer": "running headers"}
_NO = ("0", "false", "off", "none")
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
        for relation in archive.parsed("_rels/.rels"):
            if relation.get("Type", "").endswith("/officeDocument"):
                main = inner_path("", relation.get("Target", "").lstrip("/"))[0]
    if main not in archive:
        problem = f"is not a Word document: it has no {main} inside"
        raise ValueError(f"{problem}; if it is another ZIP archive, unpack it")
    styles_file = inner_path(main, "styles.xml")[0]
    tree = archive.try_to(archive.parsed, styles_file) if styles_file in archive else None
    styles = {} if tree is None else _styles(tree)
    core = "docProps/core.xml"
    tree = archive.try_to(archive.parsed, core) if core in archive else None
    names = () if tree is None else elements(tree, "title")
    title = next((" ".join(name.text.split()) for name in names if name.text), "")
    document, blocks = archive.parsed(main), list[Block]()
    paragraphs = [(each, _style_of(each, styles)) for each in document.iter("{*}p")]
    titles = sum(style.name == "title" for _, style in paragraphs)
    start = ""  # of a paragraph, whose end was deleted, or its initial
    for paragraph, style in paragraphs:
        if _skipped(paragraph):
            continue
        text, left_out = _text(paragraph)
        blocks += left_out
        properties = paragraph.find("{*}pPr")
        if properties is not None and (
            properties.find("{*}rPr/{*}del") is not None
            or any(attribute(each, "dropcap") not in ("", "none") for each in properties)
        ):
            start += text
            continue
        lines = tuple(filter(None, map(str.strip, f"{start}{text}".split("\n"))))
        start = ""
        if not lines:
            is_ruled = paragraph.find(".//{*}pBdr") is not None
            blocks.append(Block("break" if is_ruled else "blank"))
        elif style.name == "title" and titles == 1:
            title = title or " ".join(lines)
            blocks.append(Block("left out", lines, reason=HEADING))
        elif style.name.startswith(_LEFT_OUT):
            blocks.append(Block("left out", lines, reason=CONTENTS))
        elif style.name == "title":
            blocks.append(Block("heading", lines))
        elif style.level is not None and style.level < 9:
            blocks.append(Block("heading", lines, style.level + 1))
        else:
            blocks.append(Block("paragraph", lines))
    blocks += [Block("paragraph", (start.strip(),))] if start.strip() else []
    for name in archive.names:
        if (part := _OTHERS.fullmatch(name)) and part["base"] == main[: main.rfind("/") + 1]:
            tree = archive.try_to(archive.parsed, name)
            texts = () if tree is None else map(_words, tree.iter("{*}p"))
            reason = _REASONS.get(part["kind"], NOTE)
            blocks += [Block("left out", (text,), reason=reason, place=name) for text in texts]
    return book_of_blocks(blocks, title or None, problems=archive.problems)


def _skipped(element: Any) -> str:
    """The reason for which an element is left out by one that it is in, if any."""
    names = (local_name(each.tag) for each in element.iterancestors())
    return next(filter(None, map(_SKIPPED.get, names)), "")


def _text(paragraph: Any) -> tuple[str, list[Block]]:
    """The text of a paragraph, and what of it is left out."""
    pieces: list[str] = []
    left_out: list[Block] = []
    for reason, group in groupby(_pieces(paragraph), lambda piece: piece[0]):
        text = "".join(piece for _, piece in group)
        if not reason:
            pieces.append(text)
        elif text := " ".join(text.split()):
            left_out.append(Block("left out", (text,), reason=reason))
    return "".join(pieces), left_out


def _pieces(paragraph: Any) -> Iterator[tuple[str, str]]:
    """The pieces of text in a paragraph, each with why it is left out, if it is."""
    waiting = [(paragraph, "")]
    while waiting:
        element, reason = waiting.pop()
        name = local_name(element.tag)
        reason = reason or _SKIPPED.get(name, "")
        if name == "r":
            hidden = element.find("{*}rPr/{*}vanish")
            is_hidden = hidden is not None and attribute(hidden, "val") not in _NO
            reason = reason or "hidden" * is_hidden
        if name in ("t", "deltext"):
            reason = reason or "deleted" * (name == "deltext")
            yield reason, (element.text or "").replace("\n", " ")
        elif name in ("cr", "br") and attribute(element, "type") in ("", "textWrapping"):
            yield reason, "\n"
        elif name in ("tab", "nobreakhyphen"):
            yield reason, {"tab": " "}.get(name, "-")
        elif name == "alternatecontent":
            waiting += [(child, reason) for child in element[:1]]  # the other is a copy
        elif name != "ppr":
            waiting += [(child, reason) for child in reversed(element)]


def _words(element: Any) -> str:
    return " ".join("".join(text for _, text in _pieces(element)).split())


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

"""Books and plays in TEI, the XML of digital editions (Text Encoding Initiative, P5 and P4), whose
elements are renamed to elements of HTML, and read as HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from narrative_twins.books.blocks import CONTENTS, METADATA, NOTE, PICTURE
from narrative_twins.books.book import Book
from narrative_twins.books.chapters import book_of_blocks
from narrative_twins.books.html import LEFT_OUT, html_blocks, html_book
from narrative_twins.books.markup import attribute, elements, local_name, parse_xml, text_of
from narrative_twins.stories.speech import NAME
from narrative_twins.text import shortened

_ROOTS = ("tei", "tei.2", "teicorpus", "teicorpus.2")
_READINGS = "other readings"
_REASONS = {
    **dict.fromkeys("teiheader standoff facsimile sourcedoc xenodata".split(), METADATA),
    **dict.fromkeys("interpgrp spangrp listperson timeline".split(), METADATA),
    **{"titlepage": "title page", "castlist": "cast list", "figure": PICTURE, "note": NOTE},
    **{"fw": "running headers", "del": "deleted", "rdg": _READINGS, "rt": "ruby"},
}
"""Why an element is left out, by its name."""
_CHOICES = ("sic", "orig", "abbr")  # beside a correction, a regular or a long form
_DIVISION_REASONS = {
    **dict.fromkeys(("titlepage", "title_page", "halftitle"), "title page"),
    **dict.fromkeys(("contents", "toc", "table_of_contents"), CONTENTS),
    **dict.fromkeys(("notes", "footnotes", "endnotes"), NOTE),
    **dict.fromkeys(("castlist", "cast", "dramatis_personae"), "cast list"),
    **{kind: kind for kind in "dedication imprint copyright colophon index bibliography".split()},
}
"""Why a division is left out, by its type."""
_MATTER = {"front": "front matter", "back": "back matter"}
_TOLD = ("prologue", "prolog", "induction", "epilogue", "epilog")
"""Parts of the front and back matter that are of the story."""
_DIVISION = re.compile(r"div[0-7]?|prologue|epilogue|text|body|group|front|back|floatingtext")
_NAMED = ("act", "scene", "part", "book", "volume", "chapter", "letter", "canto")
"""Types of divisions that get a heading of this name, if they have none."""
_PARAGRAPHS = ("p", "ab")
_LINES = ("l", "lg")
_TAGS = {
    **dict.fromkeys((*_PARAGRAPHS, "lg", "trailer", "argument", "epigraph"), "p"),
    **dict.fromkeys(("opener", "closer", "byline", "dateline", "salute", "signed"), "p"),
    **dict.fromkeys(("quote", "cit", "sp", "spgrp", "postscript"), "div"),
    **{"list": "ul", "item": "li", "table": "table", "row": "tr", "cell": "td", "ref": "a"},
}
"""The elements of HTML for elements of TEI; those not listed are `span`, within a line."""
_WITHIN_LINE = frozenset((*_PARAGRAPHS, "l", "head", "speaker", "stage", "signed", "item", "cell"))
"""Elements in which others do not begin a paragraph."""
_HEADINGS = tuple(f"h{level}" for level in range(1, 7))
_NEW_LINE = "new-line"
_BREAKS = re.compile(r"subchapter|section|scene|break|star|asterisk|rule|\bhr\b", re.IGNORECASE)
_CLOSING, _OPENING = tuple(".,;:!?…)]}”’»"), tuple("([{“‘«¿¡")
_EDITION = re.compile(
    r"\s*[:.,;(\[—–-]\s*(?:an? |the )?(?:ELTeC|TEI|electronic|digital|machine[- ]readable)\b.*",
    re.IGNORECASE,
)


def tei_book(data: bytes) -> Book:
    """Return the book or play in a TEI file, see `read_book`; XHTML is read as HTML. Raises a
    `ValueError` for an invalid file, and for other XML."""
    root = parse_xml(data)
    name = local_name(root.tag)
    if name == "html":
        return html_book(data)
    if name not in _ROOTS:
        raise ValueError(
            f"is XML of a kind that is not read (its root is {shortened(name, 40)}): only TEI and"
            " XHTML are; convert it to plain text or EPUB"
        )
    titles = (each for head in elements(root, "titlestmt") for each in elements(head, "title"))
    title = next(filter(None, map(text_of, titles)), "")
    problems = [
        f"includes {shortened(attribute(each, 'href'), 80)}, which is another file"
        for each in elements(root, "include")
    ]
    blocks = html_blocks(_as_html(root))
    return book_of_blocks(blocks, _EDITION.sub("", title) or None, problems=problems)


def _as_html(root: Any) -> Any:
    """Turn the tree of a TEI document into HTML, in place, and return it."""
    _set_spaces(root)
    # What an element becomes depends on the names around it, so all is decided before it changes.
    on_line = _beginnings_of_speech(root)
    decided = [(each, _reason_of(each), *_form_of(each, on_line)) for each in root.iter()]
    for division, heading in [*_missing_headings(root)]:
        division.insert(0, heading)
    for element, reason, tag, attributes in decided:
        _rename(element, tag, attributes | ({LEFT_OUT: reason} if reason else {}))
        if element in on_line:
            element.tail = f"{element.tail or ''} "
    for element, *_ in decided:
        before = element.getprevious()
        if _NEW_LINE in element.attrib:
            element.addprevious(element.makeelement("br"))
        elif element.tag in _HEADINGS and before is not None and before.tag in _HEADINGS:
            # A number and a title: one heading of two lines.
            element.tag = "span"
            before.append(before.makeelement("br"))
            before.append(element)
    return root


def _rename(element: Any, tag: str, attributes: Mapping[str, str]) -> None:
    """Turn an element of TEI into one of HTML."""
    name = local_name(element.tag)
    if name == "lb":
        element.text = "" if attribute(element, "break") == "no" else " "
    elif name in ("speaker", "stage"):
        element.text = (element.text or "").lstrip()
        _set_end(element, _end_of(element).rstrip())
    if name == "speaker" and not _is_in_capitals(element):
        _set_end(element, _end_of(element).rstrip(".:") + ":")
    element.tag = tag
    element.attrib.clear()
    element.attrib.update(attributes)


def _reason_of(element: Any) -> str:
    """Return why an element is left out, empty if it stays."""
    name, parent = local_name(element.tag), _name_above(element)
    if parent in _MATTER and _kind_of(element) not in _TOLD:
        return _MATTER[parent]
    if parent == "choice" and name in _CHOICES and len(element.getparent()) > 1:
        return _READINGS
    reason = _DIVISION_REASONS.get(_kind_of(element)) if name.startswith("div") else None
    return reason or _REASONS.get(name, "")


def _form_of(element: Any, on_line: Mapping[Any, bool]) -> tuple[str, dict[str, str]]:
    """Return the element of HTML for an element, and its attributes; `_NEW_LINE` if it begins a
    line of the open paragraph. For `on_line` see `_beginnings_of_speech`."""
    name, parent = local_name(element.tag), _name_above(element)
    if _DIVISION.fullmatch(name):
        return "div", {}
    if name in ("head", "milestone") and _DIVISION.fullmatch(parent):
        return _mark_of_division(element), {}
    line = {} if on_line.get(element) else {_NEW_LINE: ""}
    if name == "l" or (name in _PARAGRAPHS and element in on_line):
        return "span", line
    is_within_line = any(local_name(each.tag) in _WITHIN_LINE for each in element.iterancestors())
    if name == "stage":
        is_spoken = parent in ("sp", "lg")
        form = _brackets(element) | (line if is_spoken else {})
        return "span" if is_within_line or is_spoken else "p", form
    tag = _TAGS.get(name, "p" if name == "head" else "span")
    if (is_within_line and tag in ("p", "div")) or (name == "lg" and element in on_line):
        tag = "span"
    return tag, {"href": attribute(element, "target")} if name == "ref" else {}


def _mark_of_division(element: Any) -> str:
    """Return the element of HTML for the heading of a division, or for a milestone in it."""
    if local_name(element.tag) == "head":
        return f"h{min(_depth(element.getparent()), 6)}"
    mark = f"{attribute(element, 'unit')} {attribute(element, 'rend')}"
    return "hr" if _BREAKS.search(mark) else "span"


def _name_above(element: Any) -> str:
    """Return the name of the element around another, empty for the root."""
    above = element.getparent()
    return "" if above is None else local_name(above.tag)


def _brackets(stage: Any) -> dict[str, str]:
    """Return the attribute that sets a stage direction in brackets, unless its text has them."""
    text = text_of(stage)
    is_inner = any(local_name(each.tag) == "stage" for each in stage.iterancestors())
    has_brackets = not text or is_inner or text[0] in "([" or text[-1] in ")]"
    return {} if has_brackets else {"class": "stagedir"}


def _beginnings_of_speech(root: Any) -> dict[Any, bool]:
    """Return the elements that are in one paragraph with the name of who speaks, which are the
    name, stage directions after it, and what is spoken first; with whether they are on one line
    with it. A name in capitals is a line of its own, if no direction is after it."""
    on_line: dict[Any, bool] = {}
    for speech in elements(root, "sp"):
        is_apart = True
        for child in speech:
            name = local_name(child.tag)
            if name in ("speaker", "stage"):
                on_line[child] = True
                is_apart = is_apart and name == "speaker" and _is_in_capitals(child)
            elif name in (*_PARAGRAPHS, *_LINES):
                on_line[child] = not is_apart
                while local_name(child.tag) == "lg" and len(child):
                    child = child[0]
                    on_line[child] = not is_apart
                break
    return on_line


def _depth(division: Any) -> int:
    """Return the depth of a division: 1 for one that is in no other."""
    above = (division, *division.iterancestors())
    return max(1, sum(local_name(each.tag).startswith("div") for each in above))


def _missing_headings(root: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each division that has no heading but is of a known type, such as a scene, as others
    beside it are; and a heading."""
    for parent in root.iter():
        divisions = [each for each in parent if _DIVISION.fullmatch(local_name(each.tag))]
        kinds = [_kind_of(each) for each in divisions]
        totals, counts = Counter(kinds), Counter[str]()
        for division, kind in zip(divisions, kinds, strict=True):
            counts[kind] += 1
            has_heading = any(local_name(child.tag) == "head" for child in division)
            if has_heading or not (kind in _TOLD or (kind in _NAMED and totals[kind] > 1)):
                continue
            number = "" if kind in _TOLD else attribute(division, "n") or str(counts[kind])
            heading = division.makeelement(f"h{min(_depth(division), 6)}")
            heading.text = f"{kind.capitalize()} {number}".strip()
            yield division, heading


def _kind_of(division: Any) -> str:
    """Return the type of a division in lower case, or the name of the element that is one."""
    name = local_name(division.tag)
    return (attribute(division, "type") if name.startswith("div") else name).lower()


def _is_in_capitals(speaker: Any) -> bool:
    """Return whether the name of who speaks is one in capitals, by which text shows it, too."""
    name = NAME.fullmatch(f"{text_of(speaker)}\nA")
    return name is not None and name["capitals"] is not None


def _set_spaces(root: Any) -> None:
    """Remove white space that is only the layout of the file from a text in which each word is an
    element `w` and each punctuation mark an element `pc`. If spaces are elements `c`, all white
    space between elements is layout; if not, only that before a closing and after an opening mark.
    """
    has_spaces = any((each.text or "x").isspace() for each in elements(root, "c"))
    before: Any = None  # the word or mark before
    for element in root.iter():
        name = local_name(element.tag)
        if name not in ("w", "pc", "c"):
            continue
        text, join = text_of(element), attribute(element, "join")
        if has_spaces and (element.tail or "x").isspace():
            element.tail = ""
        elif name == "pc":
            if before is not None and (text.startswith(_CLOSING) or join in ("left", "both")):
                before.tail = (before.tail or "").rstrip()
            if text.startswith(_OPENING) or join in ("right", "both"):
                element.tail = (element.tail or "").lstrip()
        before = element


def _end_of(element: Any) -> str:
    """Return the last piece of text in an element, after its last child."""
    return (element[-1].tail if len(element) else element.text) or ""


def _set_end(element: Any, text: str) -> None:
    """Replace the last piece of text in an element."""
    if len(element):
        element[-1].tail = text
    else:
        element.text = text

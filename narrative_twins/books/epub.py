"""Books in EPUB 2 and 3 files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from narrative_twins.books.archive import Archive, elements, inner_path, shown_name
from narrative_twins.books.blocks import Block, Book, book_of_blocks
from narrative_twins.books.markup import NOT_THE_STORY, attribute, html_blocks, local_name

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_NCX = "application/x-dtbncx+xml"
_TEXT_TYPES = frozenset(
    ["application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"]
)
# The names that EPUB 2 has for parts of a book, where they differ from EPUB 3.
_GUIDE = {"title-page": "titlepage", "notes": "endnotes"}

_Items: TypeAlias = dict[str | None, tuple[str, str, list[str]]]
"""The files of the book as its package lists them, by their ids: names, types and properties."""
_Entry: TypeAlias = tuple[tuple[str, str], str, int]
"""An entry of the table of contents: the file and the element it leads to, its text, its depth."""


def epub_book(data: bytes) -> Book:
    """The book in an EPUB file, see `read_book`; raises a `ValueError` that says what is wrong with
    it."""
    archive = Archive(data)
    if _CONTAINER not in archive:
        problem = f"is not an EPUB: it has no {_CONTAINER}"
        raise ValueError(f"{problem}; if it is another ZIP archive, unpack it")
    root = next(elements(archive.parsed(_CONTAINER), "rootfile"), None)
    path = None if root is None else root.get("full-path")
    if not path:
        raise ValueError(f"names no package in {_CONTAINER}; get it again")
    package = inner_path("", path)[0]
    tree = archive.parsed(package)
    items: _Items = {}
    for item in elements(tree, "item"):
        kind, place = item.get("media-type", "").strip().lower(), ("", "")
        # Of pictures and sounds on the web nothing is read.
        if kind in _TEXT_TYPES or _place(package, item.get("href", "")):
            place = inner_path(package, item.get("href", ""))
        items[item.get("id")] = place[0], kind, item.get("properties", "").split()
    spine = next(elements(tree, "spine"), None)
    if spine is None:
        raise ValueError(f"has no reading order (spine) in {shown_name(package)}; get it again")
    entries, left_out = _navigation(archive, items, spine.get("toc"))
    left_out |= _left_out(package, tree, "reference")
    names = [name for name in _reading_order(spine, items) if name not in left_out]
    if _ENCRYPTION in archive:
        targets = elements(archive.parsed(_ENCRYPTION), "cipherreference")
        if not {inner_path("", target.get("URI", ""))[0] for target in targets}.isdisjoint(names):
            raise ValueError(
                "is encrypted (DRM), and can't be read; get it without copy protection"
            )
    labels: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for (name, fragment), text, level in entries:
        labels.setdefault(name, {}).setdefault(fragment, []).append((text, level))
    blocks: list[Block] = []
    for name in names:
        blocks += archive.parsed(name, html_blocks, labels.get(name, {}), True).blocks
    return book_of_blocks(blocks, next(filter(None, map(_text, elements(tree, "title"))), None))


def _reading_order(spine: Any, items: _Items) -> list[str]:
    """The documents of the book in reading order, each once."""
    names: dict[str, None] = {}
    for reference in elements(spine, "itemref"):
        key = reference.get("idref")
        if key not in items:
            raise ValueError(f"has no item {shown_name(key)}, which its spine names; get it again")
        name, kind, properties = items[key]
        if kind in _TEXT_TYPES and "nav" not in properties and reference.get("linear") != "no":
            names[name] = None
    return list(names)


def _navigation(
    archive: Archive, items: _Items, ncx_id: str | None
) -> tuple[list[_Entry], set[str]]:
    """The table of contents, from the navigation of EPUB 3 or else the NCX of EPUB 2; and the
    documents that are not of the story by the landmarks of EPUB 3."""
    entries: list[_Entry] = []
    left_out: set[str] = set()
    nav = next((name for name, _, properties in items.values() if "nav" in properties), "")
    for element in elements(archive.parsed(nav), "nav") if nav in archive else ():
        kinds = attribute(element, "type").split()
        if "landmarks" in kinds:
            left_out |= _left_out(nav, element, "a")
        elif "toc" in kinds and not entries:
            entries += _entries(nav, element)
    of_kind = (item for item in items.values() if item[1] == _NCX)
    ncx, *_ = items.get(ncx_id) or next(of_kind, ("",))
    if not entries and ncx in archive:
        entries += _entries(ncx, archive.parsed(ncx))
    return entries, left_out


def _left_out(base: str, tree: Any, tag: str) -> set[str]:
    """The documents that are not of the story, by the links of a guide or of landmarks."""
    names: set[str] = set()
    for link in elements(tree, tag):
        kinds = {_GUIDE.get(kind, kind) for kind in attribute(link, "type").lower().split()}
        place = _place(base, link.get("href", ""))
        if kinds & NOT_THE_STORY and place and not place[1]:
            names.add(place[0])
    return names


def _entries(base: str, tree: Any) -> Iterator[_Entry]:
    """The entries of a table of contents that lead somewhere: links in lists of EPUB 3, or points
    of EPUB 2."""
    waiting = [(tree, 0)]
    while waiting:
        element, level = waiting.pop()
        name = local_name(element.tag)
        level += name in ("ol", "navpoint")
        place, text = None, ""
        if name == "a":
            place, text = _place(base, element.get("href", "")), _text(element)
        elif name == "navpoint":
            inside = {local_name(child.tag): child for child in reversed(element)}
            if "navlabel" in inside and "content" in inside:
                place = _place(base, inside["content"].get("src", ""))
                text = _text(inside["navlabel"])
        if place and text:
            yield place, text, max(1, level)
        waiting += [(child, level) for child in reversed(element)]


def _place(base: str, reference: str) -> tuple[str, str] | None:
    try:
        return inner_path(base, reference)
    except ValueError:
        return None


def _text(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())

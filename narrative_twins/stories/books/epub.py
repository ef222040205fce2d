"""Books in EPUB 2 and 3 files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from narrative_twins.stories.books.archive import Archive, inner_path, shown_name
from narrative_twins.stories.books.blocks import Block, book_of_blocks
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.html import NOT_THE_STORY, HtmlDocument, attribute, local_name

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_NCX = "application/x-dtbncx+xml"
_TEXT_TYPES = frozenset(
    ["application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"]
)
# Fonts that are changed to keep them from being taken out of the book.
_FONT_METHODS = frozenset(["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"])
# The names that EPUB 2 has for parts of a book, where they differ from those of EPUB 3.
_GUIDE = {"title-page": "titlepage", "notes": "endnotes"}


class _Item(NamedTuple):
    """A file of the book, as its package lists it."""

    name: str
    kind: str
    properties: list[str]


class _Entry(NamedTuple):
    """An entry of the table of contents: where it leads to, its text and how deep it is."""

    name: str
    fragment: str
    text: str
    level: int


def epub_book(data: bytes) -> Book:
    """The book in an EPUB file, see `read_book`; raises a `ValueError` that says what is wrong with
    it."""
    archive = Archive(data)
    if _CONTAINER not in archive:
        problem = f"is not an EPUB: it has no {_CONTAINER}"
        raise ValueError(f"{problem}; if it is another ZIP archive, unpack it")
    root = next(_all(archive.xml(_CONTAINER), "rootfile"), None)
    path = None if root is None else root.get("full-path")
    if not path:
        raise ValueError(f"names no package in {_CONTAINER}; get it again")
    package = inner_path("", path)[0]
    tree = archive.xml(package)
    items = {item.get("id"): _item(package, item) for item in _all(tree, "item")}
    spine = next(_all(tree, "spine"), None)
    if spine is None:
        raise ValueError(f"has no reading order (spine) in {shown_name(package)}; get it again")
    left_out = _left_out(package, tree, "reference")
    entries: list[_Entry] = []
    nav = next((item for item in items.values() if "nav" in item.properties), None)
    if nav is not None and nav.name in archive:
        for element in _all(archive.xml(nav.name), "nav"):
            kinds = attribute(element, "type").split()
            if "landmarks" in kinds:
                left_out |= _left_out(nav.name, element, "a")
            elif "toc" in kinds and not entries:
                entries += _entries(nav.name, element)
    of_kind = (item for item in items.values() if item.kind == _NCX)
    ncx = items.get(spine.get("toc")) or next(of_kind, None)
    if not entries and ncx is not None and ncx.name in archive:
        entries += _entries(ncx.name, archive.xml(ncx.name))
    labels: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for entry in entries:
        of_document = labels.setdefault(entry.name, {})
        of_document.setdefault(entry.fragment, []).append((entry.text, entry.level))
    names = [name for name in _reading_order(spine, items) if name not in left_out]
    _check_protection(archive, set(names))
    blocks: list[Block] = []
    for name in names:
        blocks += HtmlDocument(archive.xml(name, or_html=True), labels.get(name)).blocks
    title = next(filter(None, map(_text, _all(tree, "title"))), None)
    return book_of_blocks(blocks, title)


def _item(package: str, item: Any) -> _Item:
    kind = item.get("media-type", "").strip().lower()
    try:
        name = inner_path(package, item.get("href", ""))[0]
    except ValueError:
        # Of pictures and sounds on the web nothing is read.
        if kind in _TEXT_TYPES:
            raise
        name = ""
    return _Item(name, kind, item.get("properties", "").split())


def _reading_order(spine: Any, items: dict[str | None, _Item]) -> list[str]:
    """The documents of the book in reading order, each once."""
    found: dict[str, None] = {}
    for reference in _all(spine, "itemref"):
        key = reference.get("idref")
        if key not in items:
            raise ValueError(f"has no item {shown_name(key)}, which its spine names; get it again")
        item = items[key]
        is_text = item.kind in _TEXT_TYPES and "nav" not in item.properties
        if is_text and reference.get("linear") != "no":
            found[item.name] = None
    return list(found)


def _left_out(base: str, tree: Any, tag: str) -> set[str]:
    """The documents that are not of the story, by the links of a guide or of landmarks."""
    found: set[str] = set()
    for link in _all(tree, tag):
        kinds = {_GUIDE.get(kind, kind) for kind in attribute(link, "type").lower().split()}
        entry = _entry(base, link.get("href", ""), "-", 1) if kinds & NOT_THE_STORY else None
        if entry is not None and not entry.fragment:
            found.add(entry.name)
    return found


def _entries(base: str, tree: Any) -> Iterator[_Entry]:
    """The entries of a table of contents: links in lists of EPUB 3, or points of EPUB 2."""
    waiting = [(tree, 0)]
    while waiting:
        element, level = waiting.pop()
        name = local_name(element.tag)
        level += name in ("ol", "navpoint")
        entry = None
        if name == "a":
            entry = _entry(base, element.get("href", ""), _text(element), level)
        elif name == "navpoint":
            inside = {local_name(child.tag): child for child in reversed(element)}
            if "navlabel" in inside and "content" in inside:
                reference = inside["content"].get("src", "")
                entry = _entry(base, reference, _text(inside["navlabel"]), level)
        if entry is not None:
            yield entry
        waiting += [(child, level) for child in reversed(element)]


def _entry(base: str, reference: str, text: str, level: int) -> _Entry | None:
    try:
        return _Entry(*inner_path(base, reference), text, max(1, level)) if text else None
    except ValueError:  # an entry that leads nowhere has no chapter
        return None


def _check_protection(archive: Archive, names: set[str]) -> None:
    """Raise a `ValueError` if one of these files is encrypted, as by stores."""
    if _ENCRYPTION not in archive:
        return
    for data in _all(archive.xml(_ENCRYPTION), "encrypteddata"):
        methods = [element.get("Algorithm") for element in _all(data, "encryptionmethod")]
        targets = [element.get("URI", "") for element in _all(data, "cipherreference")]
        is_font = not _FONT_METHODS.isdisjoint(methods[:1])
        if not is_font and not names.isdisjoint(inner_path("", target)[0] for target in targets):
            problem = "is encrypted (DRM), and can't be read"
            raise ValueError(f"{problem}; get it without copy protection")


def _all(tree: Any, name: str) -> Iterator[Any]:
    """All elements of a name in a tree, in lower case and without its namespace."""
    return (element for element in tree.iter() if local_name(element.tag) == name)


def _text(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())

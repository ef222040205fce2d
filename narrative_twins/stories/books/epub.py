"""Books in EPUB 2 and 3 files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from narrative_twins.stories.books.archive import Archive, inner_path, shown_name
from narrative_twins.stories.books.blocks import Block, book_of_blocks
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.html import NOT_THE_STORY, HtmlBlocks, Labels
from narrative_twins.stories.books.markup import NotWellFormed, parse_html, parse_xml, xml_tree

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_TEXT_TYPES = frozenset(
    ["application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"]
)
# Fonts that are changed so that they can't be taken out of the book.
_FONT_METHODS = frozenset(["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"])
# The names that EPUB 2 has for parts of a book, where they differ from those of EPUB 3.
_GUIDE = {"title-page": "titlepage", "copyright-page": "copyright-page", "notes": "endnotes"}


class _Item(NamedTuple):
    """A file of the book, as its package lists it."""

    name: str
    kind: str
    properties: frozenset[str]


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
        raise ValueError(
            f"is no EPUB: it has no {_CONTAINER}; if it is another ZIP archive, unpack it"
        )
    root = next(_all(_tree(archive, _CONTAINER), "rootfile"), None)
    path = None if root is None else root.get("full-path")
    if not path:
        raise ValueError(f"names no package in {_CONTAINER}; get it again")
    package = inner_path("", path)[0]
    tree = _tree(archive, package)
    items = {item.get("id"): _item(package, item) for item in _all(tree, "item")}
    spine = next(_all(tree, "spine"), None)
    if spine is None:
        raise ValueError(f"has no reading order (spine) in {shown_name(package)}; get it again")
    entries, left_out = _navigation(archive, package, tree, items, spine.get("toc"))
    read = [item for item in _reading_order(spine, items) if item.name not in left_out]
    _check_protection(archive, {item.name for item in read})
    blocks: list[Block] = []
    labels: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for entry in entries:
        labels.setdefault(entry.name, {}).setdefault(entry.fragment, []).append(
            (entry.text, entry.level)
        )
    for item in read:
        blocks += _document(archive, item.name, labels.get(item.name, {}))
    title = next((text for element in _all(tree, "title") if (text := _text(element))), None)
    return book_of_blocks(blocks, title)


def _document(archive: Archive, name: str, labels: Labels) -> list[Block]:
    """The blocks of a document of the book; one with errors is read as HTML."""
    data, target = archive.read(name), HtmlBlocks(labels)
    try:
        try:
            parse_xml(data, target)
        except NotWellFormed as error:
            target = HtmlBlocks(labels)
            try:
                parse_html(data, target)
            except ValueError as other:
                raise ValueError(f"{error}, and {other}") from None
    except ValueError as error:
        raise ValueError(f"can't be read: its file {shown_name(name)} {error}") from None
    return target.finished()


def _reading_order(spine: Element, items: dict[str | None, _Item]) -> Iterator[_Item]:
    """The documents of the book in reading order, each once."""
    seen = set[str]()
    for reference in _all(spine, "itemref"):
        item = items.get(reference.get("idref"))
        if item is None:
            raise ValueError(
                f"has no item {shown_name(reference.get('idref'))}, which its spine names; get it"
                " again"
            )
        is_text = item.kind in _TEXT_TYPES and "nav" not in item.properties
        if is_text and reference.get("linear") != "no" and item.name not in seen:
            seen.add(item.name)
            yield item


def _navigation(
    archive: Archive, package: str, tree: Element, items: dict[str | None, _Item], ncx: str | None
) -> tuple[list[_Entry], set[str]]:
    """The entries of the table of contents, and the documents that are not of the story by what the
    book says."""
    entries: list[_Entry] = []
    left_out = set[str]()
    for reference in _all(tree, "reference"):  # the guide of EPUB 2
        kind = reference.get("type", "").lower()
        left_out |= _not_the_story(package, reference.get("href", ""), {_GUIDE.get(kind, kind)})
    nav = next(
        (item for item in items.values() if "nav" in item.properties and item.name in archive), None
    )
    if nav is not None:
        for element in _all(_tree(archive, nav.name), "nav"):
            kinds = set(_attribute(element, "type").split())
            if "toc" in kinds:
                entries += _nav_entries(nav.name, element)
            elif "landmarks" in kinds:
                for link in _all(element, "a"):
                    left_out |= _not_the_story(
                        nav.name, link.get("href", ""), set(_attribute(link, "type").split())
                    )
    old = items.get(ncx) or next(
        (item for item in items.values() if item.kind == "application/x-dtbncx+xml"), None
    )
    if not entries and old is not None and old.name in archive:
        entries = list(_ncx_entries(old.name, _tree(archive, old.name)))
    return entries, left_out


def _not_the_story(base: str, reference: str, kinds: set[str]) -> set[str]:
    try:
        name, fragment = inner_path(base, reference)
    except ValueError:
        return set()
    return {name} if kinds & NOT_THE_STORY and not fragment else set()


def _nav_entries(base: str, nav: Element) -> Iterator[_Entry]:
    """The entries of a table of contents of EPUB 3; lists in lists have deeper ones."""
    waiting = [(nav, 0)]
    while waiting:
        element, level = waiting.pop()
        if _local(element) == "a" and (
            entry := _entry(base, element.get("href", ""), _text(element), level)
        ):
            yield entry
        inside = level + (_local(element) == "ol")
        waiting += [(child, inside) for child in reversed(element)]


def _ncx_entries(base: str, tree: Element) -> Iterator[_Entry]:
    """The entries of a table of contents of EPUB 2."""
    waiting = [(tree, 0)]
    while waiting:
        element, level = waiting.pop()
        inside = level
        if _local(element) == "navPoint":
            inside += 1
            label, content = (
                next((e for e in element if _local(e) == name), None)
                for name in ("navLabel", "content")
            )
            if label is not None and content is not None:
                if entry := _entry(base, content.get("src", ""), _text(label), inside):
                    yield entry
        waiting += [(child, inside) for child in reversed(element)]


def _entry(base: str, reference: str, text: str, level: int) -> _Entry | None:
    try:
        return _Entry(*inner_path(base, reference), text, max(1, level)) if text else None
    except ValueError:  # an entry that leads nowhere has no chapter
        return None


def _item(package: str, item: Element) -> _Item:
    kind = item.get("media-type", "").strip().lower()
    properties = frozenset(item.get("properties", "").split())
    try:
        name = inner_path(package, item.get("href", ""))[0]
    except ValueError:
        # Of pictures and sounds on the web nothing is read.
        if kind in _TEXT_TYPES:
            raise
        name = ""
    return _Item(name, kind, properties)


def _check_protection(archive: Archive, names: set[str]) -> None:
    """Raise a `ValueError` if one of these files is encrypted, as by stores."""
    if _ENCRYPTION not in archive:
        return
    for data in _all(_tree(archive, _ENCRYPTION), "EncryptedData"):
        method = next(
            (element.get("Algorithm") for element in _all(data, "EncryptionMethod")), None
        )
        targets = [
            inner_path("", element.get("URI", ""))[0] for element in _all(data, "CipherReference")
        ]
        if method not in _FONT_METHODS and names.intersection(targets):
            raise ValueError(
                "is encrypted (DRM), and can't be read; get it without copy protection"
            )


def _tree(archive: Archive, name: str) -> Element:
    try:
        return xml_tree(archive.read(name))
    except NotWellFormed as error:
        raise ValueError(
            f"can't be read: its file {shown_name(name)} {error}; get it again"
        ) from None
    except ValueError as error:
        problem = str(error)
        where = (
            "" if shown_name(name) in problem else f"can't be read: its file {shown_name(name)} "
        )
        raise ValueError(f"{where}{problem}") from None


def _all(tree: Element, name: str) -> Iterator[Element]:
    """All elements of a name in a tree, whatever their namespace."""
    return (element for element in tree.iter() if _local(element) == name)


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _attribute(element: Element, name: str) -> str:
    """An attribute, with or without a namespace."""
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")


def _text(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())

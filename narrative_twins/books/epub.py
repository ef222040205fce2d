"""Books in EPUB 2 and 3 files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from narrative_twins.books.blocks import Block
from narrative_twins.books.book import Book
from narrative_twins.books.chapters import book_of_blocks
from narrative_twins.books.headings import has_chapters
from narrative_twins.books.html import NAVIGATION, NOT_THE_STORY, html_blocks
from narrative_twins.books.markup import attribute, elements, local_name, parse_html, text_of
from narrative_twins.books.zip_archive import Archive, inner_path
from narrative_twins.text import shortened

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_NCX = "application/x-dtbncx+xml"
_MEDIA = ("image/", "audio/", "video/", "font/", "text/css")  # types of files without text
# The names that EPUB 2 has for parts of a book, where they differ from EPUB 3.
_GUIDE = {"title-page": "titlepage", "notes": "endnotes"}

_Entry: TypeAlias = tuple[tuple[str, str], str, int]
"""An entry of the table of contents: the file and the element it leads to, its text, its depth."""


def epub_book(data: bytes) -> Book:
    """Return the book in an EPUB file, see `read_book`. Raises `ValueError` for an invalid file."""
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
    items = {item.get("id"): item for item in elements(tree, "item")}
    spine = next(elements(tree, "spine"), None)
    if spine is None:
        raise ValueError(f"has no reading order (spine) in {shortened(package, 80)}; get it again")
    names: dict[str, str] = {}  # the documents in reading order, each with why it is left out
    for reference in elements(spine, "itemref"):
        item = items.get(key := reference.get("idref"))
        if item is None:
            archive.problems.append(f"has no item {shortened(key, 80)}, which its spine names")
        elif not item.get("media-type", "").strip().lower().startswith(_MEDIA) and (
            place := archive.try_to(inner_path, package, item.get("href", ""))
        ):
            is_linear = reference.get("linear") != "no"
            is_nav = "nav" in item.get("properties", "").split()
            reason = NAVIGATION if is_nav else "" if is_linear else "not in the reading order"
            names.setdefault(archive.name(place[0]), reason)
    if _ENCRYPTION in archive:
        targets = elements(archive.parsed(_ENCRYPTION), "cipherreference")
        encrypted = {inner_path("", target.get("URI", ""))[0] for target in targets}
        if not encrypted.isdisjoint(names):
            raise ValueError(
                "is encrypted (DRM), and can't be read; get it without copy protection"
            )
    entries, left_out = _navigation(archive, package, items, spine.get("toc"))
    left_out |= _left_out(package, tree, "reference")
    labels: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for (name, fragment), text, level in entries:
        labels.setdefault(archive.name(name), {}).setdefault(fragment, []).append((text, level))
    documents: dict[str, list[Block]] = {}
    for name in names:
        page = archive.try_to(archive.parsed, name, parse_html, True)
        documents[name] = [] if page is None else html_blocks(page, labels.get(name, {}))
        if not names[name] and name in left_out and not has_chapters(documents[name]):
            names[name] = left_out[name]
    if all(names.values()):  # the whole book would be its cover
        names |= {name: "" for name in left_out if name in names}
    blocks: list[Block] = []
    for name, parts in documents.items():
        reason = names[name]
        blocks += [
            block._replace(kind="left out", reason=block.reason or reason, place=name)
            if reason and block.kind in ("heading", "paragraph")
            else block
            for block in parts
            if not (reason and block.kind == "entry")
        ]
    title = next(filter(None, map(text_of, elements(tree, "title"))), None)
    return book_of_blocks(blocks, title, problems=archive.problems)


def _navigation(
    archive: Archive, package: str, items: Mapping[str | None, Any], ncx_id: str | None
) -> tuple[list[_Entry], dict[str, str]]:
    """Return the entries of the table of contents, and by the name of a document the reason to
    leave it out: both from the navigation of EPUB 3, or else entries from the NCX of EPUB 2.
    `items` has the items of the file `package` by id, `ncx_id` is the id of the NCX."""
    entries: list[_Entry] = []
    left_out: dict[str, str] = {}

    def tree_of(items: Iterable[Any]) -> tuple[str, Any]:
        """Return the name and the root element (or None) of the first item inside the archive."""
        for item in items:
            if place := _place(package, item.get("href", "")):
                return place[0], archive.try_to(archive.parsed, place[0])
        return "", None

    nav, tree = tree_of(i for i in items.values() if "nav" in i.get("properties", "").split())
    for element in elements(tree, "nav") if tree is not None else ():
        kinds = attribute(element, "type").split()
        if "landmarks" in kinds:
            left_out |= _left_out(nav, element, "a")
        elif "toc" in kinds and not entries:
            entries += _entries(nav, element)
    if not entries:
        of_kind = [item for item in items.values() if item.get("media-type", "") == _NCX]
        ncx, tree = tree_of([items[ncx_id]] if ncx_id in items else of_kind)
        entries += _entries(ncx, tree) if tree is not None else ()
    return entries, left_out


def _left_out(base: str, tree: Any, tag: str) -> dict[str, str]:
    """Return the reasons to leave out documents, by their names: the types of the links to them,
    which are the elements `tag` in `tree`, a guide or landmarks of the file `base`."""
    names: dict[str, str] = {}
    for link in elements(tree, tag):
        kinds = (_GUIDE.get(kind, kind) for kind in attribute(link, "type").lower().split())
        reason = next(filter(None, map(NOT_THE_STORY.get, kinds)), None)
        place = _place(base, link.get("href", ""))
        if reason and place and not place[1]:
            names[place[0]] = reason
    return names


def _entries(base: str, tree: Any) -> Iterator[_Entry]:
    """Yield the entries of a table of contents that lead to a file. `tree` has the entries as links
    of EPUB 3 or navigation points of EPUB 2, and is from the file `base`."""
    for element in tree.iter():
        name, place, text = local_name(element.tag), None, ""
        if name == "a":
            place, text = _place(base, element.get("href", "")), text_of(element)
        elif name == "navpoint":
            inside = {local_name(child.tag): child for child in reversed(element)}
            if inside.keys() >= {"navlabel", "content"}:
                place = _place(base, inside["content"].get("src", ""))
                text = text_of(inside["navlabel"])
        if place and text:
            above = [local_name(each.tag) for each in (element, *element.iterancestors())]
            yield place, text, max(1, sum(each in ("ol", "navpoint") for each in above))


def _place(base: str, reference: str) -> tuple[str, str] | None:
    """Return the file and fragment of a reference in the file `base`, None outside the archive."""
    try:
        return inner_path(base, reference)
    except ValueError:
        return None

"""Books in EPUB 2 and 3 files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from narrative_twins.books.blocks import SENTENCE_END, Block
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
    package = _Package.of(Archive(data))
    archive, names = package.archive, package.documents()
    package.check_encryption(names)
    entries, left_out = package.navigation()
    left_out |= _left_out(package.name, package.tree, "reference")
    by_document = _entries_by_document(archive, entries)
    documents: dict[str, list[Block]] = {}
    for name in names:
        page = archive.try_to(archive.parsed, name, parse_html, True)
        documents[name] = [] if page is None else html_blocks(page, by_document.get(name, {}))
        reason = left_out.get(name, "")
        if reason and not names[name] and not _has_story(documents[name], reason):
            names[name] = reason
    if all(names.values()):  # the whole book would be its cover
        names |= {name: "" for name in left_out if name in names}
    blocks = [
        block
        for name, reason in names.items()
        for block in (_without(documents[name], reason, name) if reason else documents[name])
    ]
    title = next(filter(None, map(text_of, elements(package.tree, "title"))), None)
    return book_of_blocks(blocks, title, problems=archive.problems)


def _entries_by_document(
    archive: Archive, entries: Iterable[_Entry]
) -> dict[str, dict[str, list[tuple[str, int]]]]:
    """Return the texts and depths of the entries of a table of contents, by the document and the
    element that they lead to."""
    by_document: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for (name, fragment), text, level in entries:
        places = by_document.setdefault(archive.name(name), {})
        places.setdefault(fragment, []).append((text, level))
    return by_document


def _has_story(blocks: Sequence[Block], reason: str) -> bool:
    """Return whether a document has text of the story, although the book gives a reason to leave it
    out: chapters, or in what is said to be a table of contents, a sentence."""
    is_told = (block.is_prose and SENTENCE_END.search(block.text) for block in blocks)
    return has_chapters(blocks) or (reason == NAVIGATION and any(is_told))


def _without(blocks: Iterable[Block], reason: str, name: str) -> Iterator[Block]:
    """Yield the blocks of the document `name`, which is left out for a reason."""
    for block in blocks:
        if block.is_shown:
            yield block.left_out(block.reason or reason)._replace(place=name)
        elif block.kind != "entry":
            yield block


@dataclass(frozen=True)
class _Package:
    """The package file of an EPUB, which lists the parts of the book.

    Attributes:
        name, tree: the name of the file, and its root element.
        items: the elements that name the files of the book, by id.
        spine: the element with the reading order.
    """

    archive: Archive
    name: str
    tree: Any
    items: Mapping[str | None, Any]
    spine: Any

    @classmethod
    def of(cls, archive: Archive) -> _Package:
        """Read the package file of an EPUB. Raises a `ValueError` if there is none."""
        if _CONTAINER not in archive:
            problem = f"is not an EPUB: it has no {_CONTAINER}"
            raise ValueError(f"{problem}; if it is another ZIP archive, unpack it")
        root = next(elements(archive.parsed(_CONTAINER), "rootfile"), None)
        path = None if root is None else root.get("full-path")
        if not path:
            raise ValueError(f"names no package in {_CONTAINER}; get it again")
        name = inner_path("", path)[0]
        tree = archive.parsed(name)
        spine = next(elements(tree, "spine"), None)
        if spine is None:
            problem = f"has no reading order (spine) in {shortened(name, 80)}"
            raise ValueError(f"{problem}; get it again")
        items = {item.get("id"): item for item in elements(tree, "item")}
        return cls(archive, name, tree, items, spine)

    def documents(self) -> dict[str, str]:
        """Return the names of the documents in reading order, each with the reason to leave it out,
        empty without one."""
        names: dict[str, str] = {}
        for reference in elements(self.spine, "itemref"):
            item = self.items.get(key := reference.get("idref"))
            if item is None:
                problem = f"has no item {shortened(key, 80)}, which its spine names"
                self.archive.problems.append(problem)
                continue
            if item.get("media-type", "").strip().lower().startswith(_MEDIA):
                continue
            place = self.archive.try_to(inner_path, self.name, item.get("href", ""))
            if place is not None:
                is_linear = reference.get("linear") != "no"
                reason = "" if is_linear else "not in the reading order"
                names.setdefault(
                    self.archive.name(place[0]), NAVIGATION if _is_navigation(item) else reason
                )
        return names

    def check_encryption(self, names: Collection[str]) -> None:
        """Raise a `ValueError` if one of these files is encrypted."""
        if _ENCRYPTION not in self.archive:
            return
        targets = elements(self.archive.parsed(_ENCRYPTION), "cipherreference")
        encrypted = {inner_path("", target.get("URI", ""))[0] for target in targets}
        if not encrypted.isdisjoint(names):
            raise ValueError(
                "is encrypted (DRM), and can't be read; get it without copy protection"
            )

    def navigation(self) -> tuple[list[_Entry], dict[str, str]]:
        """Return the entries of the table of contents, and by the name of a document the reason to
        leave it out: both from the navigation of EPUB 3, or else entries from the NCX of EPUB 2."""
        entries: list[_Entry] = []
        left_out: dict[str, str] = {}
        name, tree = self._first_tree(filter(_is_navigation, self.items.values()))
        for element in elements(tree, "nav") if tree is not None else ():
            kinds = attribute(element, "type").split()
            if "landmarks" in kinds:
                left_out |= _left_out(name, element, "a")
            elif "toc" in kinds and not entries:
                entries += _entries(name, element)
        if not entries:
            name, tree = self._first_tree(self._ncx_items())
            entries += _entries(name, tree) if tree is not None else ()
        return entries, left_out

    def _ncx_items(self) -> list[Any]:
        """Return the items that may be the table of contents of EPUB 2."""
        key = self.spine.get("toc")
        if key in self.items:
            return [self.items[key]]
        return [item for item in self.items.values() if item.get("media-type", "") == _NCX]

    def _first_tree(self, items: Iterable[Any]) -> tuple[str, Any]:
        """Return the name and the root element (or None) of the first item inside the archive."""
        for item in items:
            if place := _place(self.name, item.get("href", "")):
                return place[0], self.archive.try_to(self.archive.parsed, place[0])
        return "", None


def _is_navigation(item: Any) -> bool:
    """Return whether an item of a package is the navigation document of EPUB 3."""
    return "nav" in item.get("properties", "").split()


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

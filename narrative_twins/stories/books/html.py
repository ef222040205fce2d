"""Books in HTML and Markdown, and the blocks of an HTML document, of which EPUB files consist.

Markup from strangers is parsed by `lxml` within its limits (256 nested elements, ten million
characters in one text), and nothing else is opened for it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from html.entities import html5
from typing import Any

from narrative_twins.stories.books.blocks import Block, book_of_blocks
from narrative_twins.stories.books.book import Book, wrap_width

MAX_ELEMENTS = 2_000_000
"""Elements of a document. A long novel has some ten thousand in HTML, and some hundred thousand in
Word."""
MAX_ATTRIBUTES = 1_000
"""Attributes of an element. The time of `lxml` is quadratic in them."""

Labels = Mapping[str, Sequence[tuple[str, int]]]
"""The entries of a table of contents, text and level, by the id of the element they lead to; by the
empty string those for the document."""

NOT_THE_STORY = frozenset(
    """
    toc landmarks page-list loi lot lov loa cover titlepage halftitlepage copyright-page colophon
    imprint imprimatur index bibliography glossary other-credits footnote footnotes endnote endnotes
    rearnote rearnotes noteref pagebreak backlink annoref
    """.split()
)
"""Values of `epub:type`, and with `doc-` before them of `role`, of what is not the text of a
story."""
_SKIPPED_CLASSES = frozenset(
    "pagenum pageno pagebreak page-number pg-boilerplate footnote footnotes fnanchor".split()
)
_SKIPPED_IDS = frozenset(["pg-header", "pg-footer"])
_SKIPPED = frozenset(
    """
    script style template noscript svg math nav aside figcaption audio video iframe object button
    select textarea rt rp del map canvas
    """.split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    """
    html head body p div section article main header footer blockquote ul ol li dl dt dd table
    caption thead tbody tfoot tr figure pre address center fieldset form details summary hgroup
    title hr h1 h2 h3 h4 h5 h6
    """.split()
)
_CELLS = frozenset(["tr", "li", "dd", "dt"])
_READ = frozenset("class hidden href id name role style type".split())  # attributes
_SPACES = re.compile(r"[ \t\n\r\f]+")
_NOTE = re.compile(r"\s*[\[(]?(?:\d{1,4}|[*†‡§]{1,3})[\])]?\s*")
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)

_DECLARED = re.compile(
    rb"<(?:\?xml|meta)\b[^>]{0,400}?(?:encoding|charset)\s*=\s*[\"']?\s*([\w.:-]{1,40})",
    re.IGNORECASE,
)
# Byte order marks and, without one, a tag; those of UTF-32 first, since one begins as UTF-16.
_BEGINNINGS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    **{"<".encode(name): name for name in ("utf-32-le", "utf-32-be")},
    **{"<".encode(name): name for name in ("utf-16-le", "utf-16-be")},
}
_HEAD = 1024  # bytes in which a page names its encoding
# Other codecs of Python are not for files, and some are slow.
_ENCODINGS = re.compile(
    r"utf-8|utf-(?:16|32)(?:-[lb]e)?|cp125\d|cp874|cp932|cp949|iso8859-\d+|shift_jis|euc_jp|iso2022_jp|euc_kr|"
    r"gb2312|gbk|gb18030|big5|koi8-[ru]|mac-(?:roman|cyrillic)"
)
_ENTITY = re.compile(r"&([^\s#&;<>]{1,32});")
_XML_DECLARATION = re.compile(r"\A\s*<\?xml\s[^>]*>")
# The beginning of a DOCTYPE with declarations of its own. Whatever is in its quotation marks before
# them, it is refused rather than read.
_DECLARATIONS = re.compile(r"<!ENTITY|<!DOCTYPE[^>]{0,1000}\[")

_FRONT = re.compile(
    r"\A---[ \t]*\r?\n(?P<fields>.*?)^(?:---|\.\.\.)[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE
)
_TITLE = re.compile(r"^title:[ \t]*(?P<mark>[\"']?)(?P<title>.*\S)(?P=mark)[ \t\r]*$", re.MULTILINE)


def html_book(data: bytes) -> Book:
    """The book in an HTML file, see `read_book`; raises a `ValueError` that says what is wrong with
    it."""
    document = HtmlDocument(parse_html(data))
    return book_of_blocks(document.blocks, document.title)


def markdown_book(text: str) -> Book:
    """The book in a Markdown text, see `read_book`; raises a `ValueError` if it has no
    paragraphs."""
    from markdown_it import MarkdownIt

    front = _FRONT.match(text)
    title = _TITLE.search(front["fields"]) if front else None
    # Indented paragraphs of stories are no code. Tags within lines stay, as text.
    parser = MarkdownIt("commonmark", {"breaks": True}).disable(["code", "html_inline"])
    html = parser.render(text[front.end() :] if front else text)
    width = wrap_width(map(len, text.splitlines(keepends=True)))
    document = HtmlDocument(parse_html(html.encode("utf-8")))
    return book_of_blocks(document.blocks, title["title"] if title else None, width)


def parse_xml(data: bytes, or_html: bool = False) -> Any:
    """The root element of an XML document, without comments; with `or_html`, one with errors is
    read as HTML. Named entities of HTML are known; a document that defines entities of its own is
    refused. Raises a `ValueError` if it is not well-formed or not safe, or its encoding is unknown.
    """
    from lxml import etree

    text = _checked(data)
    # Declared entities can be files and addresses, and grow without bounds.
    if _DECLARATIONS.search(text):
        raise ValueError(
            "declares entities or the like in its DOCTYPE, which is not read; remove them"
        )
    text = _ENTITY.sub(_character, _XML_DECLARATION.sub("", text, count=1))
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(text.encode("utf-8"), parser)
    except etree.XMLSyntaxError as error:
        problem = " ".join(str(error).split())
        _check_limits(problem)
        if or_html:
            return parse_html(data)
        raise ValueError(f"is not well-formed XML ({problem})") from None


def parse_html(data: bytes) -> Any:
    """The root element of an HTML document, without comments; None if it is empty. Raises a
    `ValueError` if it exceeds a limit or its encoding is unknown."""
    from lxml import etree

    content = _checked(data).encode("utf-8")
    options = {"encoding": "utf-8", "no_network": True}
    options |= {"remove_comments": True, "remove_pis": True}
    # Without a tree the time is linear, and a fraction of what follows.
    etree.fromstring(content, etree.HTMLParser(target=_Attributes(), **options))
    parser = etree.HTMLParser(**options)
    root = etree.fromstring(content, parser)
    # At a limit the parser stops without an exception.
    _check_limits(*(entry.message for entry in parser.error_log))
    return root


class _Attributes:
    """What `lxml` calls for each element: raises a `ValueError` for one with too many
    attributes."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(attributes) > MAX_ATTRIBUTES:
            raise ValueError(
                f"has an element with more than {MAX_ATTRIBUTES:,} attributes; convert it to plain"
                " text"
            )

    def close(self) -> None:
        pass


def local_name(name: str) -> str:
    """A name of an element or attribute without its namespace, in lower case."""
    return name.rpartition("}")[2].rpartition(":")[2].lower()


def attribute(element: Any, name: str) -> str:
    """An attribute by its name in lower case, in whichever namespace; empty if there is none."""
    # The values of all attributes would be quadratic in their number.
    keys = (key for key in element.keys() if local_name(key) == name)
    value: str = element.get(next(keys, name), "")
    return value


class HtmlDocument:
    """The blocks of an HTML or XHTML document.

    Args:
        root: the root element, see `parse_html` and `parse_xml`; None for an empty document.
        labels: the entries of a table of contents that lead to this document.

    Attributes:
        blocks: the blocks, in order.
        title: the title of the document, if it has one.
    """

    def __init__(self, root: Any, labels: Labels | None = None) -> None:
        self.blocks: list[Block] = []
        self.title: str | None = None
        self._labels = dict(labels or {})
        self._heading: int | None = None  # the level of the heading that is open
        self._in_title = self._is_kept = False
        self._cells = 0  # depth in rows and items of lists
        self._link: Any = None  # the link that is open
        # Of the block that is open: its text, whether it has any, its characters in links.
        self._pieces: list[str] = []
        self._has_text = False
        self._linked = 0
        self._add_labels("")
        if root is not None:
            self._read(root)
        self._flush()

    def _read(self, root: Any) -> None:
        from lxml import etree

        skipped = None
        walker = etree.iterwalk(root, events=("start", "end"))
        for event, element in walker:
            if event == "end":
                if element is not skipped:
                    self._end(element)
                self._add_text(element.tail)
            elif self._start(element):
                self._add_text(element.text)
            else:
                skipped = element
                walker.skip_subtree()

    def _start(self, element: Any) -> bool:
        """Begin an element; whether it is read."""
        name = local_name(element.tag)
        keys = {local_name(key): key for key in element.keys()}
        values = {name: element.get(keys[name]) for name in keys.keys() & _READ}
        if _is_skipped(name, values):
            return False
        if name in _BLOCKS:
            self._flush()
        self._add_labels(values.get("id") or values.get("name", ""))
        self._heading = _HEADINGS.get(name, self._heading)
        self._is_kept |= name == "pre"
        self._in_title |= name == "title"
        self._cells += name in _CELLS
        if name == "br":
            self._pieces.append("\n")
        elif name == "hr":
            self.blocks.append(Block("break"))
        elif name in ("td", "th"):
            self._pieces.append(" ")
        elif name == "a" and self._link is None:
            # A link within the book.
            if ":" not in values.get("href", ":").partition("#")[0]:
                if self._is_note(element):
                    return False
                self._link = element
        return True

    def _end(self, element: Any) -> None:
        name = local_name(element.tag)
        if element is self._link:
            self._link = None
        if name in _BLOCKS:
            self._flush(name)
        if name in _HEADINGS:
            self._heading = None
        self._is_kept &= name != "pre"
        self._in_title &= name != "title"
        self._cells -= name in _CELLS

    def _add_text(self, text: str | None) -> None:
        if not text:
            return
        self._pieces.append(text if self._is_kept else _SPACES.sub(" ", text))
        self._has_text = self._has_text or not text.isspace()
        if self._link is not None:
            self._linked += sum(map(str.isalnum, text))

    def _is_note(self, link: Any) -> bool:
        """Whether a link leads to a note: a number or a mark within a paragraph."""
        if self._heading is not None or self._cells or not self._has_text:
            return False
        return _NOTE.fullmatch("".join(link.itertext())) is not None

    def _add_labels(self, key: str) -> None:
        # A label within a paragraph can't be the heading of what follows.
        if key in self._labels and self._heading is None and not self._has_text:
            for text, level in self._labels.pop(key):
                self.blocks.append(Block("label", (text,), level))

    def _flush(self, ended: str = "") -> None:
        """End the block, at the end of the element `ended`."""
        text = "".join(self._pieces)
        linked = self._linked
        self._pieces, self._has_text, self._linked = [], False, 0
        lines = [_SPACES.sub(" ", line).strip() for line in text.split("\n")]
        words = tuple(filter(None, lines))
        if self._in_title:
            self.title = self.title or " ".join(words) or None
        elif words and self._heading is not None:
            self.blocks.append(Block("heading", words, self._heading))
        elif linked and (linked >= sum(map(str.isalpha, text)) or self._cells):
            self.blocks.append(Block("other"))  # an entry of a table of contents
        elif words:
            # An empty line, of two line breaks, ends a paragraph.
            groups = "\n".join(lines).strip("\n").split("\n\n")
            for group in filter(None, groups):
                self.blocks.append(Block("paragraph", tuple(filter(None, group.split("\n")))))
        elif ended in _HEADINGS:
            self.blocks.append(Block("break"))
        elif ended == "p":
            self.blocks.append(Block("blank"))


def _is_skipped(name: str, values: Mapping[str, str]) -> bool:
    if name in _SKIPPED or "hidden" in values or values.get("id") in _SKIPPED_IDS:
        return True
    kinds = set(values.get("type", "").lower().split())
    roles = values.get("role", "").split()
    kinds.update(role.removeprefix("doc-") for role in roles if role.startswith("doc-"))
    classes = values.get("class", "").lower().split()
    return bool(
        kinds & NOT_THE_STORY
        or _SKIPPED_CLASSES.intersection(classes)
        or _HIDDEN.search(values.get("style", ""))
    )


def _check_limits(*messages: str) -> None:
    """Raise a `ValueError` if a message of a parser names one of its limits."""
    for message in messages:
        if "Excessive depth" in message:
            raise ValueError("has too deeply nested elements; convert it to plain text")
        if "Resource limit" in message:
            raise ValueError("has a text that is too long; divide it, or convert it to plain text")


def _checked(data: bytes) -> str:
    """The text of an XML or HTML file, if it has not too many elements: in UTF-8 if it is that,
    otherwise as the file says. Raises a `ValueError`."""
    text = _decoded(data)
    if text.count("<") - text.count("</") > MAX_ELEMENTS:
        raise ValueError(f"has more than {MAX_ELEMENTS:,} elements; convert it to plain text")
    return text


def _decoded(data: bytes) -> str:
    name = next((name for begin, name in _BEGINNINGS.items() if data.startswith(begin)), "")
    if not name:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            problem = f"is not UTF-8 at byte {error.start} (0x{data[error.start]:02x})"
        declared = _DECLARED.search(data[:_HEAD])
        if declared is None:
            raise ValueError(f"{problem}, and names no encoding; convert it to UTF-8")
        name = declared[1].decode("ascii")
    try:
        known = codecs.lookup(name).name
        # As browsers do: in files that claim Latin-1, quotation marks are those of Windows.
        if known in ("cp1252", "iso8859-1", "ascii"):
            return data.decode("cp1252", "replace")
        if _ENCODINGS.fullmatch(known):
            return data.decode(known)
    except (LookupError, UnicodeDecodeError):
        pass
    raise ValueError(f"can't be read as {name}, the encoding it names; convert it to UTF-8")


def _character(entity: re.Match[str]) -> str:
    """The character of a named entity of HTML; those of XML stay, and unknown ones are text."""
    name = entity[1]
    if name in ("lt", "gt", "amp", "quot", "apos"):
        return entity[0]
    return html5.get(f"{name};", f"&amp;{name};")

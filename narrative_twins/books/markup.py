"""XML and HTML that can't be trusted, and the blocks of an HTML document, as in EPUB files."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from html.entities import html5
from types import MappingProxyType
from typing import Any

from narrative_twins.books.blocks import (
    CONTENTS,
    LICENCE,
    NOTE,
    PICTURE,
    Block,
    Book,
    book_of_blocks,
    letters_of,
    wrap_width,
)
from narrative_twins.text import one_line

MAX_ELEMENTS = 2_000_000
"""Elements of a document. A long novel has some 10,000 in HTML, and some 100,000 in Word."""
MAX_ATTRIBUTES = 1_000
"""Attributes of an element."""
MAX_DEPTH = 256
"""Elements that are within each other."""

Labels = Mapping[str, Sequence[tuple[str, int]]]
"""The entries of a table of contents, text and level, by the id of the element they lead to; by the
empty string those for the document."""

NAVIGATION, PAGE_NUMBER = "navigation", "page numbers"
"""Reasons why parts of a document are left out, in addition to the reasons in `blocks`."""
NOT_THE_STORY = {
    **dict.fromkeys("toc landmarks page-list loi lot lov loa".split(), NAVIGATION),
    **dict.fromkeys(
        "footnote footnotes endnote endnotes rearnote rearnotes noteref annoref backlink".split(),
        NOTE,
    ),
    "pagebreak": PAGE_NUMBER,
    **{
        kind: kind
        for kind in """
        cover titlepage halftitlepage copyright-page dedication colophon imprint imprimatur index
        bibliography glossary other-credits
        """.split()
    },
}
"""The reason to leave out an element, by its `epub:type`, or by its `role` without `doc-`."""
_SKIPPED_CLASSES = {
    **dict.fromkeys("pagenum pageno pagebreak page-number".split(), PAGE_NUMBER),
    **dict.fromkeys("footnote footnotes fnanchor".split(), NOTE),
    "pg-boilerplate": LICENCE,
}
_SKIPPED_IDS = dict.fromkeys(["pg-header", "pg-footer"], LICENCE)
_SKIPPED = {
    **dict.fromkeys("script style template title".split(), ""),  # no text of a page
    **dict.fromkeys(
        "noscript audio video iframe object button select textarea map".split(), "hidden"
    ),
    **{"svg": PICTURE, "canvas": PICTURE, "figcaption": "captions", "math": "formulas"},
    **{"nav": NAVIGATION, "aside": "asides", "del": "deleted", "rt": "ruby", "rp": "ruby"},
}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LOWEST = 7  # the level of a title in a group of headings that is no heading by itself
_BLOCKS = frozenset(
    """
    html head body p div section article main header footer blockquote ul ol li dl dt dd table
    caption thead tbody tfoot tr figure pre address center fieldset form details summary hgroup
    hr h1 h2 h3 h4 h5 h6
    """.split()
)
_CELLS = frozenset(["tr", "li", "dd", "dt"])
_LINK = "link"  # the name of an open `a` that leads to a place in the book
_SPACES = re.compile(r"[ \t\n\r\f]+")
_NOTE = re.compile(r"\s*[\[(]?(?:\d{1,4}|[*†‡§]{1,3})[\])]?\s*")
_ENDS = tuple(".,;:!?\"'”’»)…")
# What is before a number in smaller type that is the mark of a note: not one as in "10 to the 2nd".
_BEFORE_NOTE = re.compile(r"(?:[^\W\d_]{2}|[.,;:!?…\"'”’»)\]])\Z")
_INITIAL = re.compile(r"\A([\"'“‘«]?(?![AIO])[^\W\d_]) (?=[^\W\d_])")
_INITIAL_CLASS = re.compile(r"drop|initial|\bcaps?\b|first-?letter", re.IGNORECASE)
_DIRECTION = re.compile(r"^stage-?dir", re.IGNORECASE)  # style sheets add the brackets
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)

# The encoding that a file names. Other codecs of Python are not for files, and some are slow.
_DECLARED = re.compile(
    rb"<(?:\?xml|meta)\b[^>]{0,400}?(?:encoding|charset)\s*=\s*[\"']?\s*"
    rb"((?:utf-?(?:8|16)|cp|windows|iso|latin|us-ascii|shift|euc|gb|big5|koi8|mac)[\w.:-]{0,30})",
    re.IGNORECASE,
)
_HEAD = 1024  # bytes in which a page names its encoding
_LATIN = re.compile(r"iso-?8859-1|latin-?1|us-ascii|windows-1252", re.IGNORECASE)
_ENTITY = re.compile(r"&(?!(?:lt|gt|amp|quot|apos);)([^\s#&;<>]{1,32});")
_XML_DECLARATION = re.compile(r"\A\s*<\?xml\s[^>]*>")
# The beginning of a DOCTYPE with declarations of its own. Whatever is in its quotation marks before
# them, it is refused rather than read.
_DECLARATIONS = re.compile(r"<!ENTITY|<!DOCTYPE[^>]{0,1000}\[")

_FRONT = re.compile(
    r"\A---[ \t]*\r?\n(?P<fields>.*?)^(?:---|\.\.\.)[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE
)
_INLINE = frozenset(
    """
    a abbr b bdo big br cite code del dfn em font i img ins kbd mark q rp rt ruby s samp small span
    strike strong sub sup tt u var wbr
    """.split()
)
_FOOTNOTE = re.compile(r"^\[\^[^\]\s]{1,80}\]:.*(?:\n(?:[ \t]+\S.*|\S.*))*", re.MULTILINE)
_FOOTNOTE_MARK = re.compile(r"\[\^[^\]\s]{1,80}\](?!:)")
_TITLE = re.compile(r"^title:[ \t]*(?P<mark>[\"']?)(?P<title>.*\S)(?P=mark)[ \t\r]*$", re.MULTILINE)


def html_book(data: bytes) -> Book:
    """Return the book in an HTML file, see `read_book`. Raises `ValueError` for an invalid file."""
    tree = parse_html(data)
    title = next((title for name in elements(tree, "title") if (title := text_of(name))), None)
    return book_of_blocks(html_blocks(tree), title)


def markdown_book(text: str) -> Book:
    """Return the book in Markdown, see `read_book`. Raises `ValueError` without a paragraph."""
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    front = _FRONT.match(text)
    title = _TITLE.search(front["fields"]) if front else None
    # Indented paragraphs of stories are no code.
    parser = MarkdownIt("commonmark", {"breaks": True}).disable("code")
    parser.add_render_rule("html_inline", _inline_tag)
    text = text[front.end() :] if front else text
    text = _FOOTNOTE.sub(r'<div class="footnote">\n\g<0>\n</div>\n', text.replace("\r\n", "\n"))
    tokens = parser.parse(_FOOTNOTE_MARK.sub(r'<sup class="footnote">\g<0></sup>', text))
    for item, line in zip(tokens, tokens[2:], strict=False):
        if item.type == "list_item_open" and item.info and line.type == "inline":
            # A number may be of a chapter, or a year.
            number = Token("text", "", 0, content=f"{item.info}{item.markup} ")
            line.children = [number, *(line.children or ())]
    html = parser.renderer.render(tokens, parser.options, {})
    width = wrap_width(map(len, text.splitlines(keepends=True)))
    blocks = html_blocks(parse_html(html.encode("utf-8")))
    return book_of_blocks(blocks, title["title"] if title else None, width)


def _inline_tag(_: Any, tokens: Sequence[Any], at: int, *__: Any) -> str:
    """Return the tag in the token `at` of a line, escaped unless HTML has such an inline tag."""
    tag: str = tokens[at].content
    name = re.match(r"</?([a-z0-9]+)|<!--", tag, re.IGNORECASE)
    is_known = name and (name[1] or "sup").lower() in _INLINE
    return tag if is_known else tag.replace("<", "&lt;")


def parse_xml(data: bytes) -> Any:
    """Return the root element of an XML document, without comments. Named entities of HTML become
    text. Raises a `ValueError` if the document is not well-formed, defines entities, exceeds a
    limit, or has an unknown encoding."""
    from lxml import etree

    try:
        return _tree(data, is_html=False)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"is not well-formed XML ({one_line(error)})") from None


def parse_html(data: bytes, is_xml: bool = False) -> Any:
    """Return the root element of an HTML document. If `is_xml`, the document is parsed as HTML only
    if it is no well-formed XML. Raises a `ValueError` for a limit or an unknown encoding."""
    from lxml import etree

    if is_xml:
        try:
            return _tree(data, is_html=False)
        except etree.XMLSyntaxError:
            pass
    return _tree(data, is_html=True)


def _tree(data: bytes, is_html: bool) -> Any:
    """Return the root element of an HTML or XML document. Raises an `XMLSyntaxError` if XML is not
    well-formed, otherwise a `ValueError` as `parse_xml` does."""
    from lxml import etree

    text = _decoded(data)
    if not is_html:
        # Declared entities can be files and addresses, and grow without bounds.
        if _DECLARATIONS.search(text):
            raise ValueError(
                "declares entities or the like in its DOCTYPE, which is not read; remove them"
            )
        text = _XML_DECLARATION.sub("", text, count=1)
        text = _ENTITY.sub(lambda name: html5.get(f"{name[1]};", f"&amp;{name[1]};"), text)
    options = {"no_network": True, "resolve_entities": False, "encoding": "utf-8"}
    options |= {"remove_comments": True, "remove_pis": True, "html": is_html, "huge_tree": is_html}
    source = io.BytesIO(text.encode("utf-8") or b"<html/>")
    parser, depth = etree.iterparse(source, ("start", "end"), **options), 0
    # The limits hold while the tree grows: closing tags are searched for in all open elements.
    for event, element in parser:
        depth += 1 if event == "start" else -1
        if depth > MAX_DEPTH or len(element.attrib) > MAX_ATTRIBUTES:
            limits = f"{MAX_DEPTH} elements in each other, or {MAX_ATTRIBUTES:,} attributes of one"
            raise ValueError(f"has more than {limits}; convert it to plain text")
    return etree.Element("html") if parser.root is None else parser.root


def _decoded(data: bytes) -> str:
    """Return the text of an XML or HTML file in UTF-8, UTF-16 or the encoding that the file names.
    Raises a `ValueError` if the file has another encoding, or too many elements."""
    marks = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
    declared = _DECLARED.search(data[:_HEAD])
    names = ["utf-16" if data.startswith(marks) else "utf-8-sig"]
    names += [declared[1].decode("ascii")] if declared else []
    for name in names:
        try:
            # As browsers do: in files that claim Latin-1, quotation marks are as in Windows.
            is_latin = _LATIN.fullmatch(name)
            text = data.decode("cp1252", "replace") if is_latin else data.decode(name)
        except (LookupError, UnicodeDecodeError):
            continue
        if text.count("<") - text.count("</") > MAX_ELEMENTS:
            raise ValueError(f"has more than {MAX_ELEMENTS:,} elements; convert it to plain text")
        return text
    raise ValueError(f"is not in {' or '.join(names)}; convert it to UTF-8")


def html_blocks(tree: Any, labels: Labels = MappingProxyType({})) -> list[Block]:
    """Return the blocks of an HTML document in order. `labels` has the entries of the table of
    contents that lead into the document; each becomes a block."""
    return _HtmlReader(tree, labels).blocks


class _HtmlReader:
    """Reads the elements of an HTML document, in order, into the list `blocks`. Text is added to
    the open block until an element ends it."""

    def __init__(self, tree: Any, labels: Labels) -> None:
        from lxml import etree

        self.blocks: list[Block] = []
        self._labels = dict(labels)
        self._open: list[str] = []  # the names of the open elements; "" for one that is left out
        self._heading = 0  # the level of the open heading; it ends with any heading inside
        # Of the open block: its text, which begins with a letter or mark, the letters of it in
        # links, and whether it has an initial.
        self._pieces: list[str] = []
        self._linked, self._drop = 0, False
        self._add_labels("")
        walk = etree.iterwalk(tree, ("start", "end"))
        for event, element in walk:
            if event == "end":
                self._end_element(element)
                self._add_text(element.tail)
            elif (reason := self._start_element(element)) is None:
                self._add_text(element.text)
            else:
                walk.skip_subtree()
                if reason and (words := text_of(element)):
                    self.blocks.append(Block("left out", (words,), reason=reason))
        self._end_block()

    def _start_element(self, element: Any) -> str | None:
        """Read the start of an element. Return why to leave the element out, or None to keep it."""
        name = local_name(element.tag)
        values = {local_name(key): value for key, value in element.items()}
        reason = _reason(name, values)
        is_inner = ":" not in values.get("href", ":").partition("#")[0]
        if reason is None and ((name == "a" and is_inner) or name == "sup"):
            if not {_LINK, "sup"} & set(self._open):
                reason = NOTE if self._is_note(element, name) else None
                name = _LINK if name == "a" else name
        if reason is not None:
            self._open.append("")
            return reason
        if name in _BLOCKS:
            self._end_block()
        self._add_labels(values.get("id") or values.get("name", ""))
        if name == "hr":
            self.blocks.append(Block("break"))
        elif name in ("br", "td", "th"):
            self._pieces += ["\n" if name == "br" else " "] * bool(self._pieces)
        elif name == "img" and len(values.get("alt", "")) == 1:
            self._add_text(values["alt"])
        form = values.get("class", "")
        if not self._pieces:
            self._drop = self._drop or _INITIAL_CLASS.search(form) is not None
        self._pieces += ["["] * bool(_DIRECTION.search(form))
        self._heading = _HEADINGS.get(name, self._heading)
        self._open.append(name)
        return None

    def _end_element(self, element: Any) -> None:
        """End an element, and the open block if the element is a block."""
        name = self._open[-1]
        if name and _DIRECTION.search(element.get("class", "")):
            self._pieces.append("]")
        if name in _BLOCKS:
            self._end_block(name)
        self._heading = 0 if name in _HEADINGS else self._heading
        self._open.pop()

    def _add_text(self, text: str | None) -> None:
        """Add text to the open block, without white space at the beginning of the block."""
        text = (text or "").replace("\u00ad", "")  # where a word may be divided
        if text and (self._pieces or not text.isspace()):
            self._pieces.append(text if "pre" in self._open else _SPACES.sub(" ", text))
            self._linked += len(letters_of(text)) if _LINK in self._open else 0

    def _is_note(self, element: Any, name: str) -> bool:
        """Return whether a link (`a`) or superscript (`sup`) in a paragraph is a mark of a note."""
        before = "".join(self._pieces[-2:])
        if not before or self._heading:
            return False
        if name == "sup":
            is_apart = _BEFORE_NOTE.search(before) is not None
        else:  # in a cell it may be the number of a chapter
            is_apart = _CELLS.isdisjoint(self._open) or before.endswith(_ENDS)
        return is_apart and _NOTE.fullmatch("".join(element.itertext())) is not None

    def _add_labels(self, key: str) -> None:
        """Add the labels of the element with the id `key` as blocks, unless a block is open."""
        # A label within a paragraph can't be the heading of what follows.
        if key in self._labels and not self._heading and not self._pieces:
            for text, level in self._labels.pop(key):
                self.blocks.append(Block("label", (text,), level))

    def _end_block(self, ended: str = "") -> None:
        """End the open block, and add it to `blocks`. An empty block is a break or a blank if
        `ended`, the name of the element that ends here, is a heading or `p`."""
        text, linked, drop = "".join(self._pieces), self._linked, self._drop
        self._pieces, self._linked, self._drop = [], 0, False
        lines = [_SPACES.sub(" ", line).strip() for line in text.split("\n")]
        if drop:
            lines[0] = _INITIAL.sub(r"\1", lines[0], count=1)
        words = tuple(filter(None, lines))
        if words and (self._heading or "hgroup" in self._open):
            self.blocks.append(Block("heading", words, self._heading or _LOWEST))
        elif linked and linked >= sum(map(str.isalpha, text)):
            # Only links: it may be an entry of a table of contents, also where no title says so.
            self.blocks.append(Block("paragraph", words, reason=CONTENTS))
        elif words:
            # An empty line, of two line breaks, ends a paragraph.
            for group in filter(None, "\n".join(lines).strip("\n").split("\n\n")):
                part = tuple(filter(None, group.split("\n")))
                self.blocks.append(Block("paragraph", part))
        elif ended in _HEADINGS:
            self.blocks.append(Block("break"))
        elif ended == "p":
            self.blocks.append(Block("blank"))


def _reason(name: str, values: Mapping[str, str]) -> str | None:
    """Return the reason to leave out an element by its name and attributes (`values`): empty for an
    element without readable text, such as `script`, and None for one that stays."""
    roles = values.get("role", "").split()
    kinds = [*values.get("type", "").lower().split()]
    kinds += [role.removeprefix("doc-") for role in roles if role.startswith("doc-")]
    reasons = [
        _SKIPPED.get(name),
        "hidden" if "hidden" in values or _HIDDEN.search(values.get("style", "")) else None,
        _SKIPPED_IDS.get(values.get("id", "")),
        *map(NOT_THE_STORY.get, kinds),
        *map(_SKIPPED_CLASSES.get, values.get("class", "").lower().split()),
    ]
    return next((reason for reason in reasons if reason is not None), None)


def local_name(name: str) -> str:
    """Return the name of an element or attribute without its namespace, in lower case."""
    return name.rpartition("}")[2].rpartition(":")[2].lower()


def elements(tree: Any, name: str) -> Iterator[Any]:
    """Return an iterator over the elements in a tree whose `local_name` is `name`."""
    return (element for element in tree.iter() if local_name(element.tag) == name)


def text_of(element: Any) -> str:
    """Return all text in an element, on one line."""
    return " ".join("".join(element.itertext()).split())


def attribute(element: Any, name: str) -> str:
    """Return the value of the attribute whose `local_name` is `name`; empty if there is none."""
    # The values of all attributes would be quadratic in their number.
    keys = (key for key in element.keys() if local_name(key) == name)
    value: str = element.get(next(keys, name), "")
    return value

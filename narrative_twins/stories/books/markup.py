"""Safe parsing of XML and HTML from strangers: what is parsed is limited, and nothing else is
opened for it.

A parser reports elements and text to a target, as `xml.etree.ElementTree.TreeBuilder` is one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from html.entities import html5
from typing import Any, Protocol
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from narrative_twins.extras import check_extra

MAX_DEPTH = 256
"""Elements in each other. Time to find what an end tag ends is proportional to it."""
MAX_ELEMENTS = 2_000_000
"""Elements of a document. A long novel has some ten thousand in HTML, and some hundred thousand in
Word."""

_CHUNK = 65536
_HEAD = 1024  # bytes in which a page names its encoding
_DECLARED = re.compile(
    rb"<(?:\?xml|meta)\b[^>]{0,400}?(?:encoding|charset)\s*=\s*[\"']?\s*([\w.:-]{1,40})",
    re.IGNORECASE,
)
# Other codecs of Python are for other things than files, and some are slow.
_ENCODINGS = re.compile(
    r"ascii|utf-8|utf-16(?:-[lb]e)?|cp125\d|cp874|cp932|cp949|iso8859-\d+|shift_jis|euc_jp|iso2022_jp|euc_kr|"
    r"gb2312|gbk|gb18030|big5|koi8-[ru]|mac-(?:roman|cyrillic)"
)
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_DECLARATION = re.compile(r"\A\s*<\?xml\s[^>]*>")


class Target(Protocol):
    """What elements and text are reported to."""

    def start(self, tag: Any, attrs: Any, /) -> Any:
        """An element begins."""

    def end(self, tag: Any, /) -> Any:
        """An element ends."""

    def data(self, data: Any, /) -> Any:
        """Text; not always all of it at once."""


class NotWellFormed(ValueError):
    """XML with an error, where a reader of HTML might go on."""


def parse_xml(data: bytes, target: Target) -> None:
    """Report an XML document to a target, by the parser of Python, with names in braces:
    `{namespace}name`. Named entities of HTML are known; a document that defines entities of its own
    is refused.

    Raises:
        NotWellFormed: it is no well-formed XML.
        ValueError: it is not safe, or its encoding is unknown.
    """
    text = _ENTITY.sub(_character, _XML_DECLARATION.sub("", decode_markup(data), count=1))
    parser = expat.ParserCreate("utf-8", "}")
    parser.buffer_text = True
    limited = _Limited(target)
    parser.StartElementHandler, parser.EndElementHandler = limited.start, limited.end
    parser.CharacterDataHandler = target.data
    # Declared entities can be files and addresses, and grow without bounds.
    parser.StartDoctypeDeclHandler = _check_doctype
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as error:
        raise NotWellFormed(f"is no well-formed XML ({error})") from None


def xml_tree(data: bytes) -> Element:
    """A small XML document as a tree; the errors are those of `parse_xml`."""
    builder = TreeBuilder()
    parse_xml(data, builder)
    return builder.close()


def parse_html(data: bytes, target: Target) -> None:
    """Report an HTML document to a target, by `lxml`. Raises a `ValueError` if it is too deep, its
    encoding is unknown or lxml is missing."""
    try:
        check_extra("books")
        from lxml import etree
    except ImportError as error:
        raise ValueError(f"is HTML; {error}; or save it as plain text") from None

    limited = _Limited(target)
    # Without the option, texts of ten million characters would be cut without a word. Errors of the
    # target stop the parser after a chunk.
    parser = etree.HTMLParser(target=limited, encoding="utf-8", huge_tree=True, no_network=True)
    text = decode_markup(data).encode("utf-8")
    if not text.strip():
        return
    for start in range(0, len(text), _CHUNK):
        parser.feed(text[start : start + _CHUNK])
    parser.close()


class _Limited:
    """A target in the form that lxml and expat ask for, which counts elements and how deep they
    are."""

    def __init__(self, target: Target) -> None:
        self.target, self.depth, self.elements = target, 0, 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.depth += 1
        self.elements += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(
                f"has more than {MAX_DEPTH} elements in each other; convert it to plain text"
            )
        if self.elements > MAX_ELEMENTS:
            raise ValueError(f"has more than {MAX_ELEMENTS:,} elements; convert it to plain text")
        self.target.start(_name(tag), {_name(key): value for key, value in attributes.items()})

    def end(self, tag: str) -> None:
        self.depth -= 1
        self.target.end(_name(tag))

    def data(self, text: str) -> None:
        self.target.data(text)

    def close(self) -> None:
        pass


def decode_markup(data: bytes) -> str:
    """The text of an XML or HTML file: in UTF-8 if it is that, otherwise as the file says. Raises a
    `ValueError`."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "utf-16"
    else:
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
        known = "cp1252" if known in ("iso8859-1", "ascii") else known
        if not _ENCODINGS.fullmatch(known):
            raise LookupError
        return data.decode(known, "strict" if known != "cp1252" else "replace")
    except (LookupError, UnicodeDecodeError):
        raise ValueError(
            f"can't be read as {name}, the encoding it names; convert it to UTF-8"
        ) from None


def _check_doctype(name: str, system: str | None, public: str | None, internal: bool) -> None:
    if internal:
        raise ValueError(
            "declares entities or the like in its DOCTYPE, which is not read; remove them"
        )


def _name(name: str) -> str:
    """A name of expat in the form of `ElementTree`."""
    return f"{{{name}" if "}" in name else name


def _character(entity: re.Match[str]) -> str:
    """The character of a named entity of HTML; those of XML, and unknown ones, stay."""
    found = html5.get(f"{entity[1]};", "")
    return found if found and found not in "<>&\"'" else entity[0]

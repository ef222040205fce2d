"""Parsing of XML and HTML that can't be trusted, in bounded memory and without other files."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from html.entities import html5
from typing import Any

from narrative_twins.text import one_line

MAX_ELEMENTS = 2_000_000
"""Elements of a document. A long novel has some 10,000 in HTML, and some 100,000 in Word."""
MAX_ATTRIBUTES = 1_000
"""Attributes of an element."""
MAX_DEPTH = 256
"""Elements that are within each other."""

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

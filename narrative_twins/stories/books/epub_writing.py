"""Writing of EPUB 3 books."""

from __future__ import annotations

import io
import uuid
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

MEDIA_TYPE = "application/epub+zip"

_DATE = (
    1980,
    1,
    1,
    0,
    0,
    0,
)  # the first that ZIP knows: equal books are equal files, except for `modified`
_XHTML = 'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"'
_CONTAINER = """<?xml version="1.0" encoding="UTF-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/>
</rootfiles></container>
"""


class Section(NamedTuple):
    """A chapter to write: its heading and its paragraphs, as text."""

    heading: str
    paragraphs: tuple[str, ...]


def epub(
    title: str,
    sections: Sequence[Section],
    note: str = "",
    language: str = "und",
    modified: datetime | None = None,
) -> bytes:
    """An EPUB 3 book as the content of a file.

    Args:
        title: its title, also on the first page.
        sections: its chapters, one document each, listed in the table of contents.
        note: a line below the title.
        language: the language of the text as a tag of BCP 47; default undetermined.
        modified: when it was made; default now.
    """
    title = _xml_text(title)
    when = (modified or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    content = "\0".join(
        [
            title,
            note,
            *(part for section in sections for part in (section.heading, *section.paragraphs)),
        ]
    )
    identifier = uuid.uuid5(uuid.NAMESPACE_URL, content.encode("utf-8", "replace").hex())
    names = [f"chapter{number}.xhtml" for number in range(1, len(sections) + 1)]
    documents = {
        "title.xhtml": _page(
            title, f"<h1>{escape(title)}</h1><p>{escape(_xml_text(note))}</p>", language
        )
    }
    for name, section in zip(names, sections, strict=True):
        heading = _xml_text(section.heading)
        body = "\n".join(
            f"<p>{escape(_xml_text(paragraph))}</p>" for paragraph in section.paragraphs
        )
        documents[name] = _page(
            heading, f"<section><h2>{escape(heading)}</h2>\n{body}</section>", language
        )
    entries = "\n".join(
        f'<li><a href="{name}">{escape(_xml_text(section.heading))}</a></li>'
        for name, section in zip(names, sections, strict=True)
    )
    # A list in the table of contents has at least one entry.
    first = f'<li><a href="title.xhtml">{escape(title)}</a></li>'
    navigation = f'<nav epub:type="toc" id="toc"><h1>Contents</h1><ol>{first}\n{entries}</ol></nav>'
    items = "\n".join(
        f'<item id="d{i}" href="{name}" media-type="application/xhtml+xml"/>'
        for i, name in enumerate(documents)
    )
    order = "\n".join(f'<itemref idref="d{i}"/>' for i in range(len(documents)))
    package = f"""<?xml version="1.0" encoding="UTF-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="{escape(language)}">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:uuid:{identifier}</dc:identifier>
<dc:title>{escape(title)}</dc:title>
<dc:language>{escape(language)}</dc:language>
<meta property="dcterms:modified">{when}</meta>
</metadata>
<manifest>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
{items}
</manifest>
<spine>
{order}
</spine>
</package>
"""
    files = {
        "META-INF/container.xml": _CONTAINER,
        "OEBPS/content.opf": package,
        "OEBPS/nav.xhtml": _page("Contents", navigation, language),
        **{f"OEBPS/{name}": document for name, document in documents.items()},
    }
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        # The first file says what the archive is, at a fixed place and not compressed.
        archive.writestr(zipfile.ZipInfo("mimetype", _DATE), MEDIA_TYPE, zipfile.ZIP_STORED)
        for name, text in files.items():
            archive.writestr(
                zipfile.ZipInfo(name, _DATE), text.encode("utf-8"), zipfile.ZIP_DEFLATED
            )
    return written.getvalue()


def _page(title: str, body: str, language: str) -> str:
    tag = escape(language)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n<html {_XHTML} lang="{tag}"'
        f' xml:lang="{tag}">'
        f"<head><title>{escape(title)}</title></head>\n<body>{body}</body></html>\n"
    )


def _xml_text(text: str) -> str:
    """Text on one line with only the characters that XML 1.0 allows; others are U+FFFD."""
    return "".join(
        char if _is_xml(ord(char)) else "\N{REPLACEMENT CHARACTER}"
        for char in " ".join(text.split())
    )


def _is_xml(code: int) -> bool:
    return (
        code in (0x9, 0xA, 0xD)
        or 0x20 <= code <= 0xD7FF
        or 0xE000 <= code <= 0xFFFD
        or code >= 0x10000
    )

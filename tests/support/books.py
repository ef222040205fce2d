"""A small writer of books in all formats that are read, and of ZIP archives that are not what they
seem."""

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import NamedTuple

from narrative_twins.books.book import Book

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


class WrittenChapter(NamedTuple):
    """A chapter to write: its heading, its paragraphs, and the indices of those after a marked
    break."""

    heading: str | None
    paragraphs: list[str]
    breaks: list[int]


def text_file(title: str | None, chapters: list[WrittenChapter]) -> bytes:
    """A plain text, whose headings must be of a known form. It can't tell its title."""
    return "\n\n".join(_marked(chapters, str, "* * *")).encode()


def markdown_file(title: str | None, chapters: list[WrittenChapter]) -> bytes:
    front = [] if title is None else [f"---\ntitle: {title}\n---"]
    return "\n\n".join([*front, *_marked(chapters, "## {}".format, "---")]).encode()


def html_file(title: str | None, chapters: list[WrittenChapter]) -> bytes:
    head = "" if title is None else f"<title>{escape(title)}</title>"
    return f"<!doctype html>\n<html><head>{head}</head><body>\n{_body(chapters)}\n</body></html>".encode()


def epub3_file(title: str | None, chapters: list[WrittenChapter]) -> bytes:
    """An EPUB 3 file: headings are in the documents, with a navigation document among them."""
    links, files = "", dict[str, str | bytes]()
    for number, chapter in enumerate(chapters):
        name = f"c{number}.xhtml"
        files[name] = xhtml(_body([chapter]))
        if chapter.heading is not None:
            links += f'<li><a href="{name}">{escape(chapter.heading)}</a></li>'
    nav = xhtml(f'<nav epub:type="toc"><h1>Contents</h1><ol>{links}</ol></nav>')
    return epub({"nav.xhtml": nav} | files, title)


def epub2_file(title: str | None, chapters: list[WrittenChapter]) -> bytes:
    """An EPUB 2 file: only the table of contents (NCX) has the headings; the chapters are in two
    files each."""
    files, points = dict[str, str | bytes](), ""
    for number, (heading, paragraphs, breaks) in enumerate(chapters):
        half = len(paragraphs) // 2 or 1
        for part, start in (("a", 0), ("b", half)):
            inside = paragraphs[start:][: None if start else half]
            marks = [at - start for at in breaks if 0 <= at - start < len(inside)]
            if inside or not start:
                body = _body([WrittenChapter(None, inside, marks)])
                files[f"c{number}{part}.xhtml"] = xhtml(body)
        if heading is not None:
            label = f"<navLabel><text>{escape(heading)}</text></navLabel>"
            points += f'<navPoint>{label}<content src="c{number}a.xhtml"/></navPoint>'
    ncx = f'<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{points}</navMap></ncx>'
    return epub(files, title, ncx=ncx)


def docx_file(title: str | None, chapters: list[WrittenChapter]) -> bytes:
    parts = _marked(chapters, lambda heading: word_paragraph(heading, "Heading2"), "***")
    body = [part if part.startswith("<") else word_paragraph(part) for part in parts]
    return docx("".join(body), title)


def odt_file(title: str | None, chapters: list[WrittenChapter]) -> bytes:
    heading, line = '<text:h text:outline-level="1">{}</text:h>', "<text:p>* * *</text:p>"
    parts = _marked(chapters, lambda name: heading.format(escape(name)), line)
    return odt(
        "".join(p if p.startswith("<text:") else f"<text:p>{escape(p)}</text:p>" for p in parts),
        title,
    )


def tei_file(title: str | None, chapters: list[WrittenChapter]) -> bytes:
    divisions = ""
    for chapter in chapters:
        mark = "<milestone unit='section'/>"
        parts = _marked([chapter], lambda name: f"<head>{escape(name)}</head>", mark)
        divisions += "<div>"
        for part in parts:
            is_marked = part == mark or part.startswith("<head>")
            divisions += part if is_marked else f"<p>{escape(part)}</p>"
        divisions += "</div>"
    return tei(divisions, title)


WRITERS = {
    "book.txt": text_file,
    "book.md": markdown_file,
    "book.html": html_file,
    "book2.epub": epub2_file,
    "book3.epub": epub3_file,
    "book.docx": docx_file,
    "book.odt": odt_file,
    "book.xml": tei_file,
}


def word_paragraph(text: str, style: str | None = None, run: str = "") -> str:
    properties = "" if style is None else f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>'
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{escape(text)}</w:t>{run}</w:r></w:p>'


def docx(body: str, title: str | None = None, styles: str = "") -> bytes:
    heading = '<w:style w:styleId="Heading2"><w:name w:val="heading 2"/></w:style>'
    files: dict[str, str | bytes] = {
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
        "word/styles.xml": f'<w:styles xmlns:w="{WORD}">{heading}{styles}</w:styles>',
    }
    if title is not None:
        name = f"<dc:title>{escape(title)}</dc:title>"
        core = f'<p xmlns:dc="http://purl.org/dc/elements/1.1/">{name}</p>'
        files["docProps/core.xml"] = core
    return archive(files)


def odt(body: str, title: str | None = None, styles: str = "") -> bytes:
    """An OpenDocument text. `styles` are style elements, and margins of pages."""
    space = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
    names = " ".join(
        f'xmlns:{short}="{space.format(name)}"'
        for short, name in (
            ("office", "office"),
            ("text", "text"),
            ("style", "style"),
            ("draw", "drawing"),
            ("table", "table"),
            ("manifest", "manifest"),
        )
    )
    content = f"<office:body><office:text>{body}</office:text></office:body>"
    files: dict[str, str | bytes] = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f"<office:document-content {names}>{content}</office:document-content>",
        "styles.xml": f"<office:document-styles {names}>{styles}</office:document-styles>",
    }
    if title is not None:
        name = f"<dc:title>{escape(title)}</dc:title>"
        files["meta.xml"] = f'<m xmlns:dc="http://purl.org/dc/elements/1.1/">{name}</m>'
    return archive(files)


def tei(body: str, title: str | None = None, more: str = "") -> bytes:
    """A TEI document. `more` is what comes before the body, such as the front matter."""
    named = "" if title is None else f"<title>{escape(title)}</title>"
    header = f"<teiHeader><fileDesc><titleStmt>{named}</titleStmt></fileDesc></teiHeader>"
    text = f"{header}<text>{more}<body>{body}</body></text>"
    return f'<TEI xmlns="http://www.tei-c.org/ns/1.0">{text}</TEI>'.encode()


def xhtml(body: str, head: str = "", doctype: str = "") -> str:
    names = 'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"'
    return (
        f'<?xml version="1.0" encoding="utf-8"?>{doctype}<html'
        f" {names}><head>{head}</head><body>{body}</body></html>"
    )


def epub(
    files: Mapping[str, str | bytes],
    title: str | None = None,
    ncx: str | None = None,
    spine: str | None = None,
    guide: str = "",
    more: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """An EPUB file with these documents in the folder `OEBPS`, in this order; `nav.xhtml` is the
    navigation. `ncx` is the table of contents of EPUB 2, the spine has all documents by default,
    and `more` are further files of the archive, which may replace others."""
    listed, order, toc = "", "", ""
    for number, path in enumerate(files):
        kind = ' properties="nav"' if path == "nav.xhtml" else ""
        media = f'media-type="application/xhtml+xml"{kind}'
        listed += f'<item id="i{number}" href="{path}" {media}/>'
        order += f'<itemref idref="i{number}"/>'
    if ncx is not None:
        listed += '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        files, toc = {**files, "toc.ncx": ncx}, ' toc="ncx"'
    name = "" if title is None else f"<dc:title>{escape(title)}</dc:title>"
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/">{name}</metadata><manifest>{listed}</manifest>'
        f"<spine{toc}>{order if spine is None else spine}</spine><guide>{guide}</guide></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile'
        ' full-path="OEBPS/content.opf"'
        ' media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    packed: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": container,
        "OEBPS/content.opf": package,
    }
    packed |= {f"OEBPS/{path}": content for path, content in files.items()}
    return archive(packed | dict(more or {}))


def archive(files: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return data.getvalue()


def pdf(*pages: list[str]) -> bytes:
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", font]
    for page in pages:
        lines = " ".join(f"({line}) Tj 0 -20 Td" for line in page)
        content = f"BT /F1 12 Tf 50 700 Td {lines} ET".encode()
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        resources = b"/Resources << /Font << /F1 3 0 R >> >>"
        place = len(objects)
        objects.append(b"<< /Type /Page /Parent 2 0 R %s /Contents %d 0 R >>" % (resources, place))
    kids = b" ".join(b"%d 0 R" % (5 + 2 * at) for at in range(len(pages)))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d /MediaBox [0 0 9 9] >>" % (kids, len(pages))
    data = b"%PDF-1.4\n"
    table = b"0000000000 65535 f \n"
    for number, content in enumerate(objects, start=1):
        table += b"%010d 00000 n \n" % len(data)
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    size = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))
    return data + b"xref\n0 %d\n%s%s" % (size, table, trailer)


def outline(book: Book) -> str:
    """The chapters of a book: the heading and the paragraphs of each, with a star after a marked
    break."""
    chapters = []
    for number, chapter in enumerate(book.chapters):
        parts = [book.heading(number) or "-"]
        for at, (start, end) in enumerate(chapter.paragraphs):
            parts.append(("* " if at in chapter.breaks else "") + book.text[start:end])
        chapters.append(" | ".join(parts))
    return " // ".join(chapters)


def _marked(
    chapters: list[WrittenChapter], heading: Callable[[str], str], mark: str
) -> Iterator[str]:
    for chapter in chapters:
        if chapter.heading is not None:
            yield heading(chapter.heading)
        for number, paragraph in enumerate(chapter.paragraphs):
            if number in chapter.breaks:
                yield mark
            yield paragraph


def _body(chapters: list[WrittenChapter]) -> str:
    parts = _marked(chapters, lambda heading: f"<h2>{escape(heading)}</h2>", "<hr/>")
    return "\n".join(
        part if part.startswith(("<h2>", "<hr/>")) else f"<p>{escape(part)}</p>" for part in parts
    )

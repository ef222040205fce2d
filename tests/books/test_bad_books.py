"""Books from strangers: whatever is in the file, an error says what is wrong, and memory, time and
other files are safe. Limits are made small here, so that files that break them are small, too."""

import cProfile
import os
import pstats
import re
import socket
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import StoryError
from narrative_twins.books import markup
from narrative_twins.books import reading as books
from narrative_twins.books import zip_archive as archives
from narrative_twins.books.reading import book_of, read_book

from support.books import (
    WRITERS,
    WrittenChapter,
    archive,
    docx,
    epub,
    odt,
    pdf,
    tei,
    word_paragraph,
    xhtml,
)
from support.memory import memory_below

CHAPTER = xhtml("<h2>Chapter 1</h2><p>It rained.</p>")
GOOD = epub({"c.xhtml": CHAPTER})
CONTAINER = "META-INF/container.xml"


def problem_of(data: bytes, name: str = "book.epub") -> str:
    with pytest.raises(ValueError) as caught:
        book_of(name, data)
    return str(caught.value)


def encrypted(path: str) -> bytes:
    """An EPUB with a list of encrypted files."""
    listed = f'<e><EncryptedData><CipherReference URI="{path}"/></EncryptedData></e>'
    return epub({"c.xhtml": CHAPTER}, more={"META-INF/encryption.xml": listed})


def in_charset(name: str) -> bytes:
    """A page that names an encoding, in that of Windows."""
    page = '<meta http-equiv="Content-Type" content="text/html; charset={}"><p>“Café”'
    return page.format(name).encode("cp1252")


NO_TEXT = "has no text of a story; check that it is complete"
BAD = "can't be read: its file OEBPS/c.xhtml is not in "
NESTED = "has more than 256 elements in each other, or 1,000 attributes of one; convert it"
RELATIONS = '<r><x Type="a/officeDocument" Target="../../x"/></r>'
DEEP = "<w:x>" * 300 + word_paragraph("A b.") + "</w:x>" * 300
ATTRIBUTES = " ".join(f"a{n}='1'" for n in range(1_001))
BAD_BOOKS = {
    "epub": {
        "It rained.": "is not a complete ZIP archive inside (File is not a zip file); get it again",
        GOOD[: len(GOOD) // 2]: "is not a complete ZIP archive inside",
        GOOD[:200] + GOOD[220:]: "can't be read",
        archive({"a.txt": "A b."}): f"is not an EPUB: it has no {CONTAINER}; if it is another ZIP",
        archive({CONTAINER: "x"}, zipfile.ZIP_BZIP2): "can't be read: its file META-INF/contai",
        epub({}, more={CONTAINER: "<c/>"}): f"names no package in {CONTAINER}",
        epub({}, more={CONTAINER: "<c>"}): f"can't be read: its file {CONTAINER} is not well-forme",
        epub({}, more={CONTAINER: "<c><rootfile full-path='x.opf'/></c>"}): "has no file x.opf ins",
        epub({}, more={"OEBPS/content.opf": "<package/>"}): "has no reading order (spine) in OEBPS",
        epub({}, spine='<itemref idref="x"/>'): "has no item x, which its spine names",
        epub({"c.xhtml": CHAPTER}, spine=""): NO_TEXT,
        epub({"c.xhtml": xhtml("<p/>")}): NO_TEXT,
        epub({"c.xhtml": b"\xff\xfe\xff"}): f"{BAD}utf-16; convert it to UTF-8",
        epub({"c.xhtml": b"<p>caf\xe9"}): f"{BAD}utf-8-sig; convert it to UTF-8",
        epub({"c.xhtml": xhtml("<i>" * 300)}): f"can't be read: its file OEBPS/c.xhtml {NESTED}",
        GOOD.replace(b"OEBPS/c.xhtml", b"OEBPS/e.xhtml"): "has no file OEBPS/c.xhtml inside; get i",
        encrypted("OEBPS/c.xhtml"): "is encrypted (DRM), and can't be read; get it without copy",
    },
    "docx": {
        archive({"a": "b"}): "is not a Word document: it has no word/document.xml inside",
        archive({"word/document.xml": "<w:p>"}): "can't be read: its file word/document.xml is not",
        archive({"_rels/.rels": RELATIONS}): "refers to ../../x, which is not in the file; get it",
        docx(DEEP): f"can't be read: its file word/document.xml {NESTED}",
        docx(""): NO_TEXT,
    },
    "odt": {
        archive({"a": "b"}): "is not an OpenDocument text: it has no content.xml inside",
        archive({"content.xml": "<a>"}): "can't be read: its file content.xml is not well-formed",
        archive({"content.xml": "<a><body><sheet/></body></a>"}): "is OpenDocument without a text",
        odt("<text:p/>"): NO_TEXT,
        odt(
            "<text:span>" * 300 + "</text:span>" * 300
        ): f"can't be read: its file content.xml {NESTED}",
        archive(
            {"content.xml": "<a/>", "META-INF/manifest.xml": "<m><encryption-data/></m>"}
        ): "is encrypted; save it without a password",
    },
    "xml": {
        "<FictionBook/>": "is XML of a kind that is not read (its root is fictionbook): only TEI and",
        "<TEI>": "is not well-formed XML",
        "It rained.": "is not well-formed XML",
        tei("<p/>"): NO_TEXT,
        tei("", more="<front><p>It rained.</p></front>"): NO_TEXT,
        tei("<q>" * 300 + "</q>" * 300): NESTED,
    },
    "html": {
        b"<p>" + b"<b>" * 100_000: NESTED,
        b"<div>" * 300 + b"A b.": NESTED,
        f"<p {ATTRIBUTES}>A b.": NESTED,
        **{in_charset(name): "is not in utf-8-sig" for name in ("rot13", "zlib", "x", "utf-7")},
        in_charset("utf-8"): "is not in utf-8-sig or utf-8; convert it to UTF-8",
        "": NO_TEXT,
    },
    "pdf": {
        pdf([]): "is PDF without text",
        b"%PDF-1.4\n": "can't be read as PDF",
        b"It rained.": "can't be read as PDF",
    },
    "txt": {
        b"caf\xe9": "is not UTF-8 at byte 3 (0xe9); convert it, perhaps with `iconv",
        **dict.fromkeys(("", " \n\n", "Chapter 1\n\nChapter 2\n", "* * *", "\x01\n"), NO_TEXT),
    },
}


@pytest.mark.parametrize("suffix", BAD_BOOKS)
def test_what_is_wrong_with_a_book_is_said(suffix):
    if suffix == "pdf":
        pytest.importorskip("pypdf")
    for data, problem in BAD_BOOKS[suffix].items():
        data = data if isinstance(data, bytes) else data.encode()
        assert problem_of(data, f"book.{suffix}").startswith(problem)


def test_what_only_looks_wrong_is_read():
    nested = "<div>" * 200 + "<p>It rained.</p>" + "</div>" * 200
    many = xhtml(f"<p {ATTRIBUTES.rsplit(' ', 2)[0]}>It rained.</p>")
    for data in (nested.encode(), many.encode()):
        assert book_of("book.html", data).text == "It rained."
    assert book_of("book.html", b"<p>" + b"It rained. " * 1_000_000).chapters
    assert book_of("book.epub", encrypted("OEBPS/font.otf"))
    assert book_of("book.epub", epub({"c.xhtml": CHAPTER}, more={"inner.epub": GOOD}))
    for name in ("windows-1252", "iso-8859-1"):
        assert book_of("book.html", in_charset(name)).text == "“Café”"
    assert book_of("book.html", "<p>Über.</p>".encode("utf-16")).text == "Über."


def test_limits_of_sizes(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"a" * 201)
    monkeypatch.setattr(books, "MAX_FILE", 200)
    with pytest.raises(StoryError, match=r"a\.txt: has more than 200 bytes; divide it"):
        read_book(tmp_path / "a.txt")
    if os.path.exists("/dev/zero"):  # A file without end is not read to its end.
        problem = "zero: has more than 200 bytes"
        with memory_below(1_000_000), pytest.raises(StoryError, match=problem):
            read_book("/dev/zero")
    monkeypatch.undo()
    many = {f"pictures/{number}.png": b"" for number in range(50)}
    monkeypatch.setattr(archives, "MAX_MEMBERS", 40)
    assert "has more than 40 files inside" in problem_of(epub({"c.xhtml": CHAPTER}, more=many))
    chapters = [WrittenChapter(None, ["It rained."] * 30, [])]
    monkeypatch.setattr(markup, "MAX_ELEMENTS", 30)
    for name in ("book.html", "book3.epub", "book.docx", "book.odt", "book.xml"):
        problem = problem_of(WRITERS[name](None, chapters), name)
        assert "has more than 30 elements; convert it to plain text" in problem


def test_what_is_unpacked_is_counted(monkeypatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED", 100_000)
    bomb = epub({"c.xhtml": b" " * 20_000_000})
    assert len(bomb) < 100_000
    with memory_below(10_000_000):
        assert "more than 100,000 bytes unpacked; divide the" in problem_of(bomb)
    # Sizes in headers are not believed.
    sizes = struct.pack("<L", len(CHAPTER.encode())), struct.pack("<L", 4_000_000_000)
    with memory_below(10_000_000):
        book_of("book.epub", epub({"c.xhtml": CHAPTER}).replace(*sizes))
    # All files count together.
    files = {f"c{n}.xhtml": xhtml("<p>It rained.</p>" + " " * 25_000) for n in range(5)}
    assert "more than 100,000 bytes unpacked" in problem_of(epub(files))
    assert book_of("book.epub", epub(dict(list(files.items())[:2])))


PATHS = "../x.xhtml /etc/passwd ..\\x.xhtml file:///etc/passwd file:c.xhtml http://127.0.0.1:9"


@pytest.mark.parametrize("path", PATHS.split())
def test_paths_that_lead_out_are_refused(path):
    above = path if ":" in path or path.startswith("/") else path.replace("../", "../../")
    package = {CONTAINER: f'<c><rootfile full-path="{path}"/></c>'}
    problem = "(refers to .*, which is not in the file|has no file )"
    with pytest.raises(ValueError, match=problem):
        book_of("book.epub", epub({}, more=package))
    (reported,) = book_of("book.epub", epub({"c.xhtml": CHAPTER, above: CHAPTER})).problems
    assert re.match(problem, reported)
    # Names of members are never paths of the disk.
    assert book_of("book.epub", epub({"c.xhtml": CHAPTER}, more={path: "x", f"/{path}": "x"}))


ENTITIES = {
    "billion laughs": '<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "&a;&a;"><!ENTITY c "&b;&b;">]>',
    "local file": '<!DOCTYPE x [<!ENTITY c SYSTEM "file://{secret}">]>',
    "address": '<!DOCTYPE x [<!ENTITY c SYSTEM "http://127.0.0.1:{port}/x">]>',
    "parameter": '<!DOCTYPE x [<!ENTITY % c SYSTEM "http://127.0.0.1:{port}/x"> %c;]>',
    "type": '<!DOCTYPE x SYSTEM "http://127.0.0.1:{port}/x.dtd">',
}
ENTITY = xhtml("<p>It rained &c;&c;.</p>")
PLACES = {
    "book.html": lambda doctype: doctype.encode() + ENTITY.split("?>")[1].encode(),
    "book.docx": lambda doctype: archive(
        {"word/document.xml": f"{doctype}<d><p><t>&c;A</t></p></d>"}
    ),
    "book.odt": lambda doctype: archive(
        {"content.xml": f"{doctype}<d><body><text><p>&c;A</p></text></body></d>"}
    ),
    "book.xml": lambda doctype: f"{doctype}<TEI><text><p>&c;A</p></text></TEI>".encode(),
    "c.epub": lambda doctype: epub({"c.xhtml": ENTITY.replace("<html", f"{doctype}<html")}),
    "ncx.epub": lambda doctype: epub({"c.xhtml": CHAPTER}, ncx=f"{doctype}<ncx>&c;</ncx>"),
}


@pytest.mark.parametrize("name", PLACES)
def test_entities_are_neither_expanded_nor_fetched(tmp_path, name):
    (tmp_path / "secret").write_text("the secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for kind, doctype in ENTITIES.items():
            doctype = doctype.replace("{secret}", str(tmp_path / "secret")).replace("{port}", port)
            try:
                text = book_of(name, PLACES[name](doctype)).text
            except ValueError as error:
                assert "declares entities" in str(error) or kind == "type"
            else:
                # HTML has no entities of its own; a type may be named but is not fetched.
                assert name in ("book.html", "ncx.epub") or kind == "type"
                assert "the secret" not in text and "lol" not in text
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


MALFORMED = (
    '<|<a |<!--|<!|<![CDATA[|&|&#|&a|</p>|</b>|<script>|<script><!--<script|<a b="|<?|<p>|<br>|<td>'
    "|<hr>|<p></p>|<li><a href='#'>1</a>|<h1>|<h1>a</h1>|a\n|<b></p>"
).split("|")
TEXTS = "It rained. |\n|* * *\n|# A\n\n|Chapter 1\n\n|> |- |The sea\n\n\n|[|![|[a](b) |*a_|`|<b|&a;"
REPEATED = {"book.html": (MALFORMED, 10_000)}
REPEATED |= {name: (TEXTS.split("|"), 1_500) for name in ("book.txt", "book.md")}


@pytest.mark.parametrize("name", REPEATED)
def test_long_texts_of_one_kind_take_little(monkeypatch, name):
    """Readers whose time is quadratic would take hours for these."""
    monkeypatch.setattr(markup, "MAX_ELEMENTS", 5_000)
    parts, count = REPEATED[name]
    for part in parts:
        try:
            assert book_of(name, (part * count + "It rained.").encode()).text
        except ValueError as error:
            assert str(error)


def with_contents(entries: int, place: str) -> bytes:
    """A book with a table of contents that has an entry for each of its places."""
    links = (f"<li><a href='c.xhtml#i{n}'>Chapter {n}</a></li>" for n in range(entries))
    nav = xhtml(f"<nav epub:type='toc'><ol>{''.join(links)}</ol></nav>")
    document = xhtml(f"{''.join(map(place.format, range(entries)))}<p>The end.</p>")
    return epub({"nav.xhtml": nav, "c.xhtml": document})


def chain_of_styles(length: int) -> bytes:
    """A Word file with a paragraph of each of the styles, which are based on each other."""
    style = '<w:style w:styleId="s{}"><w:name w:val="n{}"/><w:basedOn w:val="s{}"/></w:style>'
    styles = "".join(style.format(n, n, n + 1) for n in range(length))
    return docx("".join(word_paragraph("A b.", f"s{n}") for n in range(length)), styles=styles)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("book.html", lambda n: b"<p>He ran" + b"<a href='#x'>far</a> <a href='#x'>1</a>" * n),
        ("book.epub", lambda n: with_contents(n, "<p id='i{}'>A b.</p>")),
        ("book.epub", lambda n: with_contents(n, "<i id='i{}'/> ")),
        ("book.docx", chain_of_styles),
        ("book.docx", lambda n: docx(f"<w:p>{'<w:r><w:t>a</w:t></w:r>' * n}</w:p>")),
        (
            "book.odt",
            lambda n: odt(f"<text:p>{'<text:s/>a' * n}</text:p>" + "<text:p>b</text:p>" * n),
        ),
        ("book.xml", lambda n: tei(f"<sp>{'<stage>a</stage>' * n}<p>b</p>{'<l>b</l>' * n}</sp>")),
        ("book.xml", lambda n: tei("<div type='scene'><w>a</w> <pc>.</pc></div>" * n)),
    ],
    ids=["links", "contents", "places", "styles", "runs", "odt", "speeches", "scenes"],
)
def test_work_is_proportional_to_the_input(name, made):
    """Calls of functions are counted, since time depends on what else the machine does."""
    counts = []
    for size in (200, 800):
        data, profile = made(size), cProfile.Profile()
        profile.runcall(book_of, name, data)
        counts.append(pstats.Stats(profile).total_calls)
    assert counts[1] < 5 * counts[0]


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(WRITERS)),
    changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=8),
    cut=st.floats(0, 1),
)
def test_damaged_files_are_read_or_reported(name, changes, cut):
    chapters = [WrittenChapter("Chapter 1", ["It rained & so on.", "Nadia ran."], [1])]
    data = bytearray(WRITERS[name]("Rain", chapters))
    for where, value in changes:
        data[int(where * len(data))] = value
    for damaged in (bytes(data), bytes(data[: int(cut * len(data))])):
        try:
            book = book_of(name, damaged)
        except ValueError as error:
            assert str(error)
        else:
            assert all(book.text[slice(*span)].strip() for span in book.paragraphs)

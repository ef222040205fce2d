"""Books from strangers: whatever is in the file, an error says what is wrong, and memory, time and
other files are safe. Each limit is made small here, so that the file that breaks it is small
too."""

from __future__ import annotations

import codecs
import cProfile
import io
import pstats
import resource
import socket
import struct
import sys
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import StoryError
from narrative_twins.stories.books import archive as archives
from narrative_twins.stories.books import bounded
from narrative_twins.stories.books import html as markup
from narrative_twins.stories.books import reading as books
from narrative_twins.stories.books.bounded import limited_memory, read_bounded
from narrative_twins.stories.books.reading import book_of, read_book

from support.books import WRITERS, WrittenChapter, archive, docx, epub, word_paragraph, xhtml
from support.command import run
from support.readers import memory_below

CHAPTER = xhtml("<h2>Chapter 1</h2><p>It rained.</p>")
GOOD = epub({"c.xhtml": CHAPTER})
CONTAINER = "META-INF/container.xml"


def problem_of(data: bytes, name: str = "book.epub") -> str:
    """What is wrong with a book."""
    with pytest.raises(ValueError) as caught:
        book_of(name, data)
    return str(caught.value)


def test_size_of_files(tmp_path, monkeypatch):
    monkeypatch.setattr(books, "MAX_FILE", 400)
    monkeypatch.setattr(books, "MAX_TEXT", 200)
    long = {"a.txt": (b"a" * 201, 200), "a.html": (b"<" * 201, 200), "a.epub": (GOOD, 400)}
    for name, (data, limit) in long.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(StoryError, match=f"{name}: has more than {limit} bytes; divide it"):
            read_book(tmp_path / name)

    # A file without end is not read to its end.
    problem = "/dev/zero: has more than 200 bytes"
    with memory_below(1_000_000), pytest.raises(StoryError, match=problem):
        read_book("/dev/zero")


def test_bombs_are_counted_while_they_are_unpacked(monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBER", 100_000)
    size = 20_000_000
    bomb = epub({"c.xhtml": b" " * size})
    assert len(bomb) < 100_000
    with memory_below(10_000_000):
        found = problem_of(bomb)
    problem = "is too large: its file OEBPS/c.xhtml has more than 100,000 bytes unpacked; divide it"
    assert found.startswith(problem)
    # Sizes in headers are not believed.
    sizes = struct.pack("<L", len(CHAPTER.encode())), struct.pack("<L", 4_000_000_000)
    lying = epub({"c.xhtml": CHAPTER}).replace(*sizes)
    with memory_below(10_000_000):
        book_of("book.epub", lying)


def test_size_of_all_files_together(monkeypatch):
    """Also if the list of files names the same data again and again."""
    monkeypatch.setattr(archives, "MAX_UNPACKED", 20_000)
    files = {f"c{n}.xhtml": xhtml("<p>It rained.</p>" + " " * 5_000) for n in range(5)}
    assert "has more than 20,000 (of all files) bytes unpacked" in problem_of(epub(files))
    assert book_of("book.epub", epub(dict(list(files.items())[:2])))
    monkeypatch.setattr(archives, "MAX_UNPACKED", 300_000)
    names = [f"OEBPS/{n}.xhtml" for n in range(10)]
    data = io.BytesIO(epub({f"{n}.xhtml": CHAPTER + " " * 100_000 * (n == 0) for n in range(10)}))
    with zipfile.ZipFile(data, "a") as found:
        first = found.getinfo(names[0])
        for copy in map(found.getinfo, names[1:]):
            for field in ("compress_type", "CRC", "compress_size", "file_size", "header_offset"):
                setattr(copy, field, getattr(first, field))
        found.writestr("new", "")  # so that the list of files is written
    # Either Python refuses the overlap, or the limit does.
    reasons = ("can't be read: its file OEBPS/", "is too large: its file OEBPS/")
    assert problem_of(data.getvalue()).startswith(reasons)


def test_number_of_files(monkeypatch):
    many = {f"pictures/{number}.png": b"" for number in range(50)}
    monkeypatch.setattr(archives, "MAX_MEMBERS", 40)
    assert "has more than 40 files inside" in problem_of(epub({"c.xhtml": CHAPTER}, more=many))
    monkeypatch.setattr(archives, "MAX_MEMBERS", 60)
    assert book_of("book.epub", epub({"c.xhtml": CHAPTER}, more=many))


def test_archives_of_other_kinds():
    assert book_of("book.epub", epub({"c.xhtml": CHAPTER}, more={"inner.epub": GOOD}))
    # Only methods that unpack bit by bit are used.
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        assert "is not compressed by deflate" in problem_of(archive({CONTAINER: "x"}, method))


PATHS = "../secret.xhtml /etc/passwd ..\\secret.xhtml file:///etc/passwd file:c.xhtml http://127.0.0.1:9"


@pytest.mark.parametrize("path", PATHS.split())
def test_paths_that_lead_out_are_refused(tmp_path, monkeypatch, path):
    (tmp_path / "secret.xhtml").write_text(CHAPTER)
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    above = path if ":" in path or path.startswith("/") else path.replace("../", "../../")
    package = {CONTAINER: f'<c><rootfile full-path="{path}"/></c>'}
    for data in (epub({"c.xhtml": CHAPTER, above: CHAPTER}), epub({}, more=package)):
        assert "refers to " in problem_of(data) and "which is not in the file" in problem_of(data)
    # Names of members are never paths of the disk.
    assert book_of("book.epub", epub({"c.xhtml": CHAPTER}, more={path: "x", f"/{path}": "x"}))
    assert not list((tmp_path / "inner").iterdir())


ENTITIES = {
    "billion laughs": (
        '<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>'
    ),
    "quadratic": f'<!DOCTYPE x [<!ENTITY c "{"a" * 1_000}">]>',
    "local file": '<!DOCTYPE x [<!ENTITY c SYSTEM "file://{secret}">]>',
    "address": '<!DOCTYPE x [<!ENTITY c SYSTEM "http://127.0.0.1:{port}/x">]>',
    "parameter": '<!DOCTYPE x [<!ENTITY % c SYSTEM "http://127.0.0.1:{port}/x"> %c;]>',
    "type": '<!DOCTYPE x SYSTEM "http://127.0.0.1:{port}/x.dtd">',
}


PLACES = ["c.xhtml", "content.opf", "container.xml", "toc.ncx", "book.docx", "book.html"]


def with_doctype(place: str, doctype: str) -> bytes:
    """A book with a DOCTYPE and entities in one of its files."""
    document = xhtml("<p>It rained &c;&c;.</p>", doctype=doctype)
    if place == "book.html":
        return document.encode()
    if place == "book.docx":
        main = f"{doctype}<document><p><t>It rained &c;.</t></p></document>"
        return archive({"word/document.xml": main})
    if place == "c.xhtml":
        return epub({"c.xhtml": document})
    if place == "toc.ncx":
        return epub({"c.xhtml": CHAPTER}, ncx=f"{doctype}<ncx><text>&c;</text></ncx>")
    inner = f"META-INF/{place}" if place == "container.xml" else f"OEBPS/{place}"
    with zipfile.ZipFile(io.BytesIO(GOOD)) as good:
        changed = f"{doctype}{good.read(inner).decode()}"
    return epub({"c.xhtml": CHAPTER}, more={inner: changed})


@pytest.mark.parametrize("place", PLACES)
def test_entities_are_neither_expanded_nor_fetched(tmp_path, place):
    (tmp_path / "secret").write_text("the secret")
    name = place if place.startswith("book") else "book.epub"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for kind, doctype in ENTITIES.items():
            doctype = doctype.replace("{secret}", str(tmp_path / "secret")).replace("{port}", port)
            try:
                text = book_of(name, with_doctype(place, doctype)).text
            except ValueError as error:
                assert "declares entities" in str(error) or kind == "type"
            else:
                # HTML has no entities of its own; a type may be named but is not fetched.
                assert place == "book.html" or kind == "type"
                assert "the secret" not in text and "lol" not in text
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("name", ["book.html", "book.epub", "book.docx"])
def test_depth(name):
    def nested(depth: int) -> bytes:
        body = "<div>" * depth + "<p>It rained.</p>" + "</div>" * depth
        if name == "book.html":
            return body.encode()
        if name == "book.epub":
            return epub({"c.xhtml": xhtml(body)})
        return docx(f"{'<w:x>' * depth}{word_paragraph('It rained.')}{'</w:x>' * depth}")

    assert book_of(name, nested(100)).text == "It rained."
    for depth in (300, 100_000):
        assert "has too deeply nested elements" in problem_of(nested(depth), name)
    # Elements that are never closed are nested, too.
    assert "too deeply nested elements" in problem_of(b"<b>" * 100_000, "book.html")
    # A text that lxml would cut is an error.
    assert "a text that is too long" in problem_of(b"<p>" + b"It rained. " * 1_000_000, "book.html")


@pytest.mark.parametrize("name", ["book.html", "book3.epub", "book.docx"])
def test_number_of_elements(monkeypatch, name):
    data = WRITERS[name](None, [WrittenChapter(None, ["It rained."] * 30, [])])
    monkeypatch.setattr(markup, "MAX_ELEMENTS", 200)
    assert book_of(name, data)
    monkeypatch.setattr(markup, "MAX_ELEMENTS", 30)
    assert "has more than 30 elements; convert it to plain text" in problem_of(data, name)


@pytest.mark.parametrize("begin", ["", "<p x='>'>", '<!-- <p x=" -->', "<i>" * 300])
def test_number_of_attributes(begin):
    """Without a tree they are counted as they are parsed."""

    def with_attributes(count: int) -> bytes:
        return f"{begin}<p {' '.join(f'a{n}=1' for n in range(count))}>It rained.</p>".encode()

    too_many = "has an element with more than 1,000 attributes; convert it to plain text"
    assert too_many in problem_of(with_attributes(1_001), "book.html")
    if not begin.startswith("<i>"):
        assert book_of("book.html", with_attributes(900)).text == "It rained."
    # Those of XML take linear time.
    many = xhtml(with_attributes(20_000).decode().removeprefix(begin).replace("=1", "='1'"))
    assert book_of("book.epub", epub({"c.xhtml": many})).text == "It rained."


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
    ],
    ids=["links", "contents", "places", "styles", "runs"],
)
def test_work_is_proportional_to_the_input(name, made):
    """Calls of functions are counted, since time depends on what else the machine does."""
    counts = []
    for size in (200, 800):
        data, profile = made(size), cProfile.Profile()
        profile.runcall(book_of, name, data)
        counts.append(pstats.Stats(profile).total_calls)
    assert counts[1] < 5 * counts[0]


NO_TEXT = "has no text of a story; check that it is complete"
BAD = "can't be read: its file OEBPS/c.xhtml "
EPUB = {
    "It rained.": "is not a complete ZIP archive inside (File is not a zip file); get it again",
    GOOD[: len(GOOD) // 2]: "is not a complete ZIP archive inside",
    GOOD[:200] + GOOD[220:]: "can't be read",
    archive({"story.txt": "A b."}): "is not an EPUB: it has no META-INF/container.xml; if it is",
    epub({}, more={CONTAINER: "<c/>"}): "names no package in META-INF/container.xml",
    epub(
        {}, more={CONTAINER: "<c>"}
    ): f"can't be read: its file {CONTAINER} is not well-formed XML",
    epub({}, more={CONTAINER: "<c><rootfile full-path='x.opf'/></c>"}): "has no file x.opf inside",
    epub({}, more={"OEBPS/content.opf": "<package/>"}): "has no reading order (spine) in OEBPS/con",
    epub({}, spine='<itemref idref="x"/>'): "has no item x, which its spine names",
    epub({"c.xhtml": CHAPTER}, spine=""): NO_TEXT,
    epub({"c.xhtml": xhtml("<p/>")}): NO_TEXT,
    epub({"c.xhtml": b"\xff\xfe\xff"}): f"{BAD}can't be read as utf-16",
    epub({"c.xhtml": b"<p>caf\xe9"}): f"{BAD}is not UTF-8 at byte 6 (0xe9), and names no",
    GOOD.replace(b"OEBPS/c.xhtml", b"OEBPS/e.xhtml"): "has no file OEBPS/c.xhtml inside; get it",
}
RELATIONS = '<r><x Type="a/officeDocument" Target="../../x"/></r>'
WORD = {
    archive({"a": "b"}): "is not a Word document: it has no word/document.xml inside",
    archive(
        {"word/document.xml": "<w:p>"}
    ): "can't be read: its file word/document.xml is not well",
    docx(""): NO_TEXT,
    archive(
        {"_rels/.rels": RELATIONS}
    ): "refers to ../../x, which is not in the file; get it again",
}


@pytest.mark.parametrize(("name", "cases"), [("book.epub", EPUB), ("book.docx", WORD)])
def test_broken_files(name, cases):
    for data, problem in cases.items():
        data = data if isinstance(data, bytes) else data.encode()
        assert problem_of(data, name).startswith(problem)


def test_encrypted_books():
    def protected(method: str, path: str) -> bytes:
        inside = f'<EncryptionMethod Algorithm="{method}"/><CipherReference URI="{path}"/>'
        listed = f"<e><EncryptedData>{inside}</EncryptedData></e>"
        return epub({"c.xhtml": CHAPTER}, more={"META-INF/encryption.xml": listed})

    aes = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"
    assert problem_of(protected(aes, "OEBPS/c.xhtml")).startswith("is encrypted (DRM), and")
    assert book_of("book.epub", protected("http://www.idpf.org/2008/embedding", "OEBPS/font.otf"))
    flagged = bytearray(GOOD)
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        for at in range(len(flagged)):
            if flagged.startswith(mark, at):
                flagged[at + offset] |= 1
    assert problem_of(bytes(flagged)).startswith("is encrypted (its file META-INF/container.xml)")


def test_wrong_encodings():
    problem = "is not UTF-8 at byte 3 (0xe9); convert it, perhaps with `iconv"
    assert problem_of(b"caf\xe9", "book.txt").startswith(problem)
    page = '<meta http-equiv="Content-Type" content="text/html; charset={}"><p>“Café”'
    for name in ("windows-1252", "iso-8859-1"):
        assert book_of("book.html", page.format(name).encode("cp1252")).text == "“Café”"
    for name in ("rot13", "zlib", "punycode", "x", "utf-7", "utf-8"):
        problem = problem_of(page.format(name).encode("cp1252"), "book.html")
        assert f"can't be read as {name}, the encoding it names" in problem


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


@pytest.mark.parametrize("encoding", ["utf-32", "utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"])
def test_wide_encodings_with_and_without_a_mark(encoding):
    assert book_of("a.html", "<p>Über.</p>".encode(encoding)).text == "Über."
    marks = {"utf-32-be": codecs.BOM_UTF32_BE, "utf-32-le": codecs.BOM_UTF32_LE}
    data = marks.get(encoding, b"") + "<p>Über.</p>".encode(encoding)
    assert book_of("a.html", data).text == "Über."


def test_a_book_is_read_in_a_process_that_can_be_ended():
    expected = book_of("a.epub", GOOD)
    assert read_bounded("a.epub", GOOD, lambda: None) == (expected, 1)
    with pytest.raises(ValueError, match="has no text of a story"):
        read_bounded("a.txt", b"", lambda: None)
    long = b"<p>A b.</p>" * 200_000  # takes seconds, also if this process has to wait
    with pytest.raises(ValueError, match="takes more than 0 seconds to be read"):
        read_bounded("a.html", long, lambda: None, seconds=0)

    def cancel() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_bounded("a.html", long, cancel)


def test_names_and_files_of_strangers_around_the_process(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('executed')")
    monkeypatch.chdir(tmp_path)
    for name in ("-m.txt", "\ud800\0\n.txt", f"{'a' * 200_000}.txt"):
        assert read_bounded(name, b"A b.", lambda: None)[1] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="memory is not limited there")
def test_memory_of_commands_is_limited(tmp_path, monkeypatch, bert_folder):
    (tmp_path / "large.html").write_bytes(b"<p>A b.</p>")
    monkeypatch.setattr(bounded, "MEMORY_HERE", 100_000_000)
    monkeypatch.setattr(markup, "parse_html", lambda data: bytearray(1_000_000_000))
    before = resource.getrlimit(resource.RLIMIT_AS)
    problem = "needs more than 0.1 GB of memory to be read; divide it into volumes"
    for command in ("book", "score"):
        done = run(command, tmp_path / "large.html", "--model", bert_folder, "-q")
        assert done.code == 1 and f"large.html: {problem}" in done.err
    with pytest.raises(KeyboardInterrupt), limited_memory():
        assert resource.getrlimit(resource.RLIMIT_AS) != before
        raise KeyboardInterrupt
    assert resource.getrlimit(resource.RLIMIT_AS) == before

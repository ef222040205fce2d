"""Story files in, whole files out."""

from __future__ import annotations

import io
import os
import stat
import sys

import pytest

from narrative_twins.files import WholeFile, whole_lines
from narrative_twins.stories.reading import count_stories, read_stories


@pytest.fixture
def stdin(monkeypatch):
    def give(data: bytes):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def test_text_files(tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two"
    one.write_bytes(b"\xef\xbb\xbfNadia ran.\r\nIt rained.")
    two.write_text("Über alles.", encoding="utf-8")
    assert list(read_stories([str(one)])) == [(str(one), "Nadia ran.\r\nIt rained.", None)]
    assert [source.content for source in read_stories([str(one), str(two)])] == [
        {"id": str(one), "text": "Nadia ran.\r\nIt rained."},
        {"id": str(two), "text": "Über alles."},
    ]
    assert count_stories([str(one), str(two)]) == 2


def test_json_lines(tmp_path):
    file = tmp_path / "stories.jsonl"
    file.write_bytes(b'{"text": "A b."}\n\n"C d."\n["E.", "F."]\n{"text": "cut\n\xff\n{"text": "\\u00dc."}')
    found = list(read_stories([str(file)]))
    assert [source.name for source in found] == [f"{file}, line {n}" for n in (1, 3, 4, 5, 6, 7)]
    assert [source.content for source in found] == [{"text": "A b."}, "C d.", ["E.", "F."], None, None, {"text": "Ü."}]
    assert "not valid JSON" in found[3].problem
    assert "not UTF-8 at byte 0 (0xff)" in found[4].problem
    assert count_stories([str(file)]) == 6


def test_json(tmp_path):
    file = tmp_path / "stories.json"
    file.write_text('[{"text": "A b."}, "C d."]')
    assert [tuple(source) for source in read_stories([str(file)])] == [
        (f"{file}, item 0", {"text": "A b."}, None),
        (f"{file}, item 1", "C d.", None),
    ]
    file.write_text('{"text": "A b."}')
    assert [source.content for source in read_stories([str(file)])] == [{"text": "A b."}]
    file.write_text("{")
    assert "not valid JSON" in next(read_stories([str(file)])).problem
    assert count_stories([str(file)]) == 0


def test_an_archive_is_not_counted(tmp_path):
    (tmp_path / "all.ZIP").write_bytes(b"PK")
    assert count_stories([str(tmp_path / "all.ZIP")]) == 0


def test_what_cannot_be_read_is_told_and_passed_over(tmp_path):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("A b.")
    bad.write_bytes(b"caf\xe9 au lait")
    missing = str(tmp_path / "missing.txt")
    problems = [source.problem for source in read_stories([missing, str(tmp_path), str(bad), str(good)])]
    assert problems[0].startswith("can't be read (No such file")
    assert problems[1].startswith("can't be read (Is a directory")
    assert problems[2].startswith("is not UTF-8 at byte 3 (0xe9); convert it, perhaps by `iconv -f WINDOWS-1252")
    assert problems[3] is None
    assert count_stories([missing]) == 0


@pytest.mark.parametrize(
    ("data", "contents"),
    [
        (b'{"text": "A b."}\n{"text": "C d."}\n', [{"text": "A b."}, {"text": "C d."}]),
        (b'\xef\xbb\xbf{"text": "A b."}\n', [{"text": "A b."}]),
        (b'"Go," she said.\nHe left.\n', ['"Go," she said.\nHe left.\n']),
        (b"", [""]),
        (b'\n \n{"text": "A b."}\n', [{"text": "A b."}]),
        (b'["A b.", "C d."]\n["E f."]\n', [["A b.", "C d."], ["E f."]]),
        (b"[Laughter] He left.\n", ["[Laughter] He left.\n"]),
    ],
)
def test_standard_input(stdin, data, contents):
    stdin(data)
    assert [source.content for source in read_stories(["-"])] == contents
    assert count_stories(["-"]) == 0


def test_the_form_can_be_named(stdin):
    stdin(b'"A b."\n"C d."\n')
    assert [source.content for source in read_stories(["-"], "jsonl")] == ["A b.", "C d."]
    stdin(b"{curly}\n")
    assert [source.content for source in read_stories(["-"], "text")] == ["{curly}\n"]


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with WholeFile(str(path)) as out:
        out.write("a\n")
        assert path.read_text() == "old"
        assert (tmp_path / "out.csv.part").read_text() == "a\n", "each piece is on the disk at once"
        out.write("b\n")
    assert path.read_text() == "a\nb\n"
    assert [one.name for one in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("keep", [False, True])
def test_a_broken_run_leaves_the_old_file(tmp_path, keep):
    path = tmp_path / "out.jsonl"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), WholeFile(str(path), keep=keep) as out:
        out.write("a\n")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert (tmp_path / "out.jsonl.part").exists() == keep


def test_resuming(tmp_path):
    path, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    assert whole_lines(str(path)) == []
    part.write_text('{"a": 1}\n{"b": 2}\n{"cut')
    assert whole_lines(str(path)) == ['{"a": 1}', '{"b": 2}']
    with WholeFile(str(path), resume=True) as out:
        out.write('{"c": 3}\n')
    assert path.read_text() == '{"a": 1}\n{"b": 2}\n{"c": 3}\n'
    with WholeFile(str(path), resume=True) as out:
        out.write('{"d": 4}\n')
    assert len(whole_lines(str(path))) == 4
    assert not part.exists()


def test_lines_hold_any_character(tmp_path):
    path = tmp_path / "out.jsonl"
    with WholeFile(str(path)) as out:
        out.write("a\u2028b\x85c\n")
    assert whole_lines(str(path)) == ["a\u2028b\x85c"]


def test_standard_input_stays_open(stdin):
    stdin(b"A b.")
    assert [source.content for source in read_stories(["-", "-"])] == [
        {"id": "standard input", "text": "A b."},
        {"id": "standard input", "text": ""},
    ]


def test_what_is_no_plain_file_is_written_as_it_comes(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with WholeFile(str(pipe)) as out:
        out.write("a\n")
    assert os.read(reader, 9) == b"a\n"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with WholeFile(str(link)) as out:
        out.write("new")
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600, "and a file keeps its mode"
    assert target.read_text() == "new"


def test_where_no_file_can_be_written_is_told_at_once(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        WholeFile(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="folder of .* does not exist; make it first"):
        WholeFile(str(tmp_path / "nowhere" / "out.csv"))


def test_an_interrupted_run_is_put_aside_not_lost(tmp_path):
    part = tmp_path / "out.jsonl.part"
    part.write_text("hours of work\n")
    with WholeFile(str(tmp_path / "out.jsonl"), keep=True) as out:
        out.write("a\n")
    assert (tmp_path / "out.jsonl.part.old").read_text() == "hours of work\n"


def test_what_is_durable_is_on_the_disk_before_it_goes_on(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((tmp_path / "out.part").read_text()))
    with WholeFile(str(tmp_path / "out"), keep=True, resume=True, durable=True) as file:
        for number in range(3):
            file.write(f"{number}\n")
            assert len(synced) == number + 1
    assert synced == ["0\n", "0\n1\n", "0\n1\n2\n"]


def test_what_is_durable_has_one_writer(tmp_path):
    with WholeFile(str(tmp_path / "out"), keep=True, resume=True, durable=True) as file:
        file.write("first\n")
        with pytest.raises(FileExistsError, match="written by another run"):
            with WholeFile(str(tmp_path / "out"), keep=True, resume=True, durable=True):
                pass
        file.write("second\n")
    assert (tmp_path / "out").read_text() == "first\nsecond\n"


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_run_takes_nothing_from_the_first(resume, tmp_path):
    """Whether it would go on with the file or begin anew."""
    with WholeFile(str(tmp_path / "a"), keep=True, durable=True) as first:
        first.write("one\n")
        with pytest.raises(FileExistsError, match="written by another run"):
            WholeFile(str(tmp_path / "a"), keep=True, resume=resume, durable=True).__enter__()
        first.write("two\n")
    assert (tmp_path / "a").read_text() == "one\ntwo\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]

"""Files that appear when they are whole, and runs that go on."""

from __future__ import annotations

import os
import stat

import pytest

from narrative_twins.files import WholeFile, whole_lines


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

"""Files that appear only when they are complete, and runs that are resumed."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from narrative_twins import files
from narrative_twins.files import (
    AtomicFile,
    ResumableFile,
    ResumeError,
    complete_lines,
    digest_of_files,
    read_settings,
    run_path,
    run_settings,
)


def test_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with AtomicFile(str(path)) as out:
        out.write("a\n")
        assert path.read_text() == "old"
        assert (tmp_path / "out.csv.part").read_text() == "a\n", "each piece is written at once"
        out.write("b\n")
    assert path.read_text() == "a\nb\n"
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("keep", [False, True])
def test_interrupted_run_leaves_the_old_file(tmp_path, keep):
    path = tmp_path / "out.jsonl"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), AtomicFile(str(path), keep=keep) as out:
        out.write("a\n")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert (tmp_path / "out.jsonl.part").exists() == keep


def test_resume(tmp_path):
    path, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    assert complete_lines(str(path)) == []
    part.write_text('{"a": 1}\n{"b": 2}\n{"cut')
    assert complete_lines(str(path)) == ['{"a": 1}', '{"b": 2}']
    with AtomicFile(str(path), resume=True) as out:
        out.write('{"c": 3}\n')
    assert path.read_text() == '{"a": 1}\n{"b": 2}\n{"c": 3}\n'
    with AtomicFile(str(path), resume=True) as out:
        out.write('{"d": 4}\n')
    assert len(complete_lines(str(path))) == 4
    assert not part.exists()


def test_lines_may_contain_other_line_breaks(tmp_path):
    path = tmp_path / "out.jsonl"
    with AtomicFile(str(path)) as out:
        out.write("a\u2028b\x85c\n")
    assert complete_lines(str(path)) == ["a\u2028b\x85c"]


def test_named_pipe_is_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with AtomicFile(str(pipe)) as out:
        out.write("a\n")
    assert os.read(reader, 9) == b"a\n"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_link_stays_a_link_and_file_keeps_its_mode(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with AtomicFile(str(link)) as out:
        out.write("new")
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600, "the file keeps its mode"
    assert target.read_text() == "new"


def test_invalid_path_raises_at_once(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        AtomicFile(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="folder of .* does not exist; create it first"):
        AtomicFile(str(tmp_path / "nowhere" / "out.csv"))


def test_new_run_renames_the_part_file_of_an_interrupted_run(tmp_path):
    part = tmp_path / "out.jsonl.part"
    part.write_text("hours of work\n")
    with AtomicFile(str(tmp_path / "out.jsonl"), keep=True) as out:
        out.write("a\n")
    assert (tmp_path / "out.jsonl.part.old").read_text() == "hours of work\n"


def test_sync_writes_each_piece_to_disk_before_write_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append((tmp_path / "out.part").read_text())
    )
    with AtomicFile(str(tmp_path / "out"), keep=True, resume=True, sync=True) as file:
        for number in range(3):
            file.write(f"{number}\n")
            assert len(synced) == number + 1
    assert synced == ["0\n", "0\n1\n", "0\n1\n2\n"]


def test_file_has_only_one_writer(tmp_path):
    with AtomicFile(str(tmp_path / "out"), keep=True, resume=True, sync=True) as file:
        file.write("first\n")
        with pytest.raises(FileExistsError, match="written by another run"):
            with AtomicFile(str(tmp_path / "out"), keep=True, resume=True, sync=True):
                pass
        file.write("second\n")
    assert (tmp_path / "out").read_text() == "first\nsecond\n"


@pytest.mark.parametrize("resume", [False, True])
def test_second_run_does_not_change_the_file_of_the_first(resume, tmp_path):
    """Whether the second run resumes or starts over."""
    with AtomicFile(str(tmp_path / "a"), keep=True, sync=True) as first:
        first.write("one\n")
        with pytest.raises(FileExistsError, match="written by another run"):
            AtomicFile(str(tmp_path / "a"), keep=True, resume=resume, sync=True).__enter__()
        first.write("two\n")
    assert (tmp_path / "a").read_text() == "one\ntwo\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_settings_of_a_run_are_written_beside_its_lines(tmp_path):
    path = tmp_path / "out.jsonl"
    with ResumableFile(str(path), {"windows": (1, 2)}) as out:
        out.write("a\n")
        assert sorted(file.name for file in tmp_path.iterdir()) == [
            "out.jsonl.part",
            "out.jsonl.part.run",
        ]
        assert run_settings(str(path)) == out.settings
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.jsonl", "out.jsonl.run"]
    assert read_settings(run_path(str(path)))["windows"] == [1, 2]


def interrupt(path, settings, *lines):
    with pytest.raises(KeyboardInterrupt), ResumableFile(str(path), settings) as out:
        for line in lines:
            out.write(f"{line}\n")
        raise KeyboardInterrupt


def test_run_can_only_be_resumed_with_the_same_settings(tmp_path):
    path = tmp_path / "out.jsonl"
    interrupt(path, {"model": "a", "top": None, "old": 1}, "one")
    with pytest.raises(
        ResumeError,
        match=r'started with model "a" \(now "b"\), old 1 \(now null\), new null \(now 2\)',
    ):
        ResumableFile(str(path), {"model": "b", "top": None, "new": 2}, resume=True)
    with ResumableFile(str(path), {"model": "a", "top": None, "old": 1}, resume=True) as out:
        assert out.lines == ["one"]
        out.write("two\n")
    assert path.read_text() == "one\ntwo\n"
    # A complete file can be resumed as well.
    assert ResumableFile(str(path), {"model": "a", "top": None, "old": 1}, resume=True).lines == [
        "one",
        "two",
    ]
    run = Path(run_path(str(path)))
    run.unlink()
    with pytest.raises(ResumeError, match="its settings .*out.jsonl.run.* are missing; start over"):
        ResumableFile(str(path), {"model": "a", "top": None, "old": 1}, resume=True)


def test_new_run_renames_the_settings_of_an_interrupted_run(tmp_path):
    path = tmp_path / "out.jsonl"
    interrupt(path, {"seed": 1}, "one")
    interrupt(path, {"seed": 2}, "two")
    assert (tmp_path / "out.jsonl.part.old").read_text() == "one\n"
    assert read_settings(f"{path}.part.old.run")["seed"] == 1
    assert run_settings(str(path))["seed"] == 2


def test_interrupted_run_leaves_the_settings_of_the_complete_file(tmp_path):
    path = tmp_path / "out.jsonl"
    with ResumableFile(str(path), {"seed": 1}) as out:
        out.write("one\n")
    interrupt(path, {"seed": 2}, "two")
    assert run_settings(str(path))["seed"] == 2
    assert read_settings(run_path(str(path)))["seed"] == 1
    (tmp_path / "out.jsonl.part").unlink()
    (tmp_path / "out.jsonl.part.run").unlink()
    assert run_settings(str(path))["seed"] == 1


def test_complete_file_without_additions_stays_complete(tmp_path):
    path = tmp_path / "out.jsonl"
    with ResumableFile(str(path), {}) as out:
        out.write("one\n")
    with pytest.raises(ResumeError), ResumableFile(str(path), {}, resume=True):
        raise ResumeError("other input")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.jsonl", "out.jsonl.run"]
    assert path.read_text() == "one\n"


def test_crash_between_the_two_renames_loses_no_settings(tmp_path, monkeypatch):
    """The file of lines is renamed, but the settings file is not."""
    path = tmp_path / "out.jsonl"
    with ResumableFile(str(path), {"seed": 1}) as out:
        out.write("one\n")
    replace = os.replace

    def crash(source, target):
        if str(source).endswith(".run") and str(target).endswith("out.jsonl.run"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt), ResumableFile(str(path), {"seed": 2}) as out:
        out.write("two\n")
    monkeypatch.undo()
    assert path.read_text() == "two\n"
    assert run_settings(str(path))["seed"] == 2


def test_digest_depends_on_contents_and_names(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.log").write_text("y")
    all_files, texts = digest_of_files(tmp_path), digest_of_files(tmp_path, {".txt"})
    assert all_files != texts
    (tmp_path / "b.log").write_text("z")
    assert digest_of_files(tmp_path) != all_files and digest_of_files(tmp_path, {".txt"}) == texts
    (tmp_path / "a.txt").rename(tmp_path / "c.txt")
    assert digest_of_files(tmp_path, {".txt"}) != texts


def test_second_writer_is_refused_while_the_first_lives(tmp_path):
    path = str(tmp_path / "out.jsonl")
    for resume in (False, True):
        with AtomicFile(path, keep=True) as out:
            out.write("a\n")
            with pytest.raises(
                FileExistsError, match="out.jsonl.part is being written by another run"
            ):
                AtomicFile(path, keep=True, resume=resume).__enter__()
            out.write("b\n")
        assert (tmp_path / "out.jsonl").read_text() == "a\nb\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.jsonl"]


def test_part_file_that_is_completed_before_it_is_locked_is_not_used(tmp_path, monkeypatch):
    """The lock of a file that another run has renamed in the meantime is of no use."""
    path = str(tmp_path / "out.txt")
    first, lock = AtomicFile(path), files.lock
    first.__enter__()
    first.write("first")

    def lock_late(descriptor, name):
        monkeypatch.setattr(files, "lock", lock)
        first.__exit__(None, None, None)
        lock(descriptor, name)

    monkeypatch.setattr(files, "lock", lock_late)
    with AtomicFile(path) as second:
        assert (tmp_path / "out.txt").read_text() == "first"
        second.write("second")
        assert (tmp_path / "out.txt").read_text() == "first"
    assert (tmp_path / "out.txt").read_text() == "second"


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_are_not_followed(tmp_path, link):
    other = tmp_path / "other.txt"
    other.write_text("precious")
    link(other, tmp_path / "out.txt.part")
    for resume in (False, True):
        with pytest.raises(FileExistsError, match="out.txt.part is .* link.*remove it first"):
            AtomicFile(str(tmp_path / "out.txt"), resume=resume).__enter__()
    assert other.read_text() == "precious"


def test_errors_of_writing_name_the_file(tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "out.txt"
    with pytest.raises(OSError, match="out.txt.part can't be written: No space left on device"):
        with AtomicFile(str(path)) as out:
            monkeypatch.setattr(os, "write", full)
            out.write("a")
    assert not path.exists()


@pytest.mark.parametrize(
    "data", [b"", b"a", b"a\n", b"a\nb", b"\n" * 5 + b"x" * 20, b"x" * 20 + b"\n"]
)
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_end_of_the_last_line(tmp_path, data, chunk):
    path = tmp_path / "lines"
    path.write_bytes(data)
    with open(path, "rb") as file:
        assert files._end_of_last_line(file.fileno(), chunk) == data.rfind(b"\n") + 1


def test_many_writers_leave_one_complete_file(tmp_path):
    path, refused = str(tmp_path / "out.txt"), []

    def write(number):
        try:
            with AtomicFile(path) as out:
                for _ in range(200):
                    out.write(f"{number}\n")
        except FileExistsError:
            refused.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert len(lines) == 200 and len(set(lines)) == 1 and int(lines[0]) not in refused
    assert os.listdir(tmp_path) == ["out.txt"]


def test_settings_are_found_after_a_crash_between_two_renames(tmp_path):
    path, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    with ResumableFile(str(path), {"model": "a"}) as out:
        out.write('{"a": 1}\n')
    settings = run_settings(str(path))
    os.replace(path, part)  # a resumed run gives the file its name of before, and ends
    assert run_settings(str(path)) == settings
    os.replace(part, path)
    os.replace(run_path(str(path)), run_path(str(part)))
    assert run_settings(str(path)) == settings

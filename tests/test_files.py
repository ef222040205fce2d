"""Files that appear only when they are complete, and runs that are resumed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

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
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((tmp_path / "out.part").read_text()))
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
        assert sorted(file.name for file in tmp_path.iterdir()) == ["out.jsonl.part", "out.jsonl.part.run"]
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
        ResumeError, match=r'started with model "a" \(now "b"\), old 1 \(now null\), new null \(now 2\)'
    ):
        ResumableFile(str(path), {"model": "b", "top": None, "new": 2}, resume=True)
    with ResumableFile(str(path), {"model": "a", "top": None, "old": 1}, resume=True) as out:
        assert out.lines == ["one"]
        out.write("two\n")
    assert path.read_text() == "one\ntwo\n"
    # A complete file can be resumed as well.
    assert ResumableFile(str(path), {"model": "a", "top": None, "old": 1}, resume=True).lines == ["one", "two"]
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

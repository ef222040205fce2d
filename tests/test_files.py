"""Files that appear only when they are complete, and runs that are resumed."""

from __future__ import annotations

import errno
import os
import stat

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


def names(folder) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def interrupt(path, settings, *lines):
    with pytest.raises(KeyboardInterrupt), ResumableFile(str(path), settings) as out:
        for line in lines:
            out.write(f"{line}\n")
        raise KeyboardInterrupt


def test_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    path.chmod(0o600)
    with AtomicFile(str(path)) as out:
        out.write("a\n")
        assert path.read_text() == "old"
        assert (tmp_path / "out.csv.part").read_text() == "a\n", "each piece is written at once"
        out.write(b"b\n")
    assert path.read_text() == "a\nb\n" and names(tmp_path) == ["out.csv"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(KeyboardInterrupt), AtomicFile(str(path)) as out:
        out.write("c\n")
        raise KeyboardInterrupt
    assert path.read_text() == "a\nb\n" and names(tmp_path) == ["out.csv"]


def test_named_pipe_is_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with AtomicFile(str(pipe)) as out:
        out.write("a\n")
    assert os.read(reader, 9) == b"a\n"
    os.close(reader)


def test_pipe_with_the_name_of_a_descriptor_is_written_directly(tmp_path):
    """As `/dev/stdout` is, which is a link to a name that is no path."""
    reader, writer = os.pipe()
    link = tmp_path / "stdout"
    link.symlink_to(f"/proc/self/fd/{writer}")
    if not link.exists():
        pytest.skip("descriptors have no names here")
    with AtomicFile(str(link)) as out:
        out.write("a\n")
    assert os.read(reader, 9) == b"a\n" and names(tmp_path) == ["stdout"]
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("name", ["a", "a.part", "a.part.run"])
def test_pipe_in_place_of_a_file_of_the_run_is_not_opened(name, tmp_path):
    """It would be waited for, for ever."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileExistsError, match=f"{name} is not a file; remove it first"):
        with ResumableFile(str(tmp_path / "a"), {}, resume=True, follow=False) as out:
            out.write("row\n")
    os.mkfifo(tmp_path / "a.run")
    assert run_settings(str(tmp_path / "a")) is None


def test_lines_that_are_not_text_are_reported_with_their_file(tmp_path):
    (tmp_path / "a.part").write_bytes(b"one\n\xff\n")
    with pytest.raises(ResumeError, match=r"a\.part, line 2 is not in UTF-8.*remove it first"):
        complete_lines(str(tmp_path / "a"))


def test_problems_are_raised_before_anything_is_written(tmp_path, monkeypatch):
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        AtomicFile(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="folder of .* does not exist; create it first"):
        AtomicFile(str(tmp_path / "nowhere" / "out.csv"))

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="out.txt.part can't be written: No space left on device"):
        with AtomicFile(str(tmp_path / "out.txt")) as out:
            monkeypatch.setattr(os, "write", full)
            out.write("a")
    assert names(tmp_path) == []


def test_link_that_the_user_names_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
    target.write_text("old")
    link.symlink_to(target)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileExistsError, match="loop is a symbolic link to itself"):
        AtomicFile(str(tmp_path / "loop"))
    (tmp_path / "loop").unlink()
    with ResumableFile(str(link), {"seed": 1}) as out:
        out.write("new\n")
    assert link.is_symlink() and target.read_text() == "new\n"
    assert names(tmp_path) == ["link.jsonl", "target.jsonl", "target.jsonl.run"]
    with pytest.raises(FileExistsError, match="link.jsonl is a symbolic link; remove it first"):
        AtomicFile(str(link), follow=False)


@pytest.mark.parametrize("planted", [".part", ".part.run", ".part.run.part", ".run", ".part.old"])
@pytest.mark.parametrize("resume", [False, True])
def test_planted_links_are_not_written_through(tmp_path, planted, resume):
    """At any name that is derived from that of the output, whether they are refused or replaced."""
    victim, path = tmp_path / "victim", tmp_path / "x.jsonl"
    victim.write_text("precious\n")
    if planted == ".part.old":
        interrupt(path, {"seed": 1}, "one")
    (tmp_path / f"x.jsonl{planted}").symlink_to(victim)
    try:
        with ResumableFile(str(path), {"seed": 1}, resume=resume) as out:
            out.write("two\n")
    except (FileExistsError, ResumeError) as error:
        assert "symbolic link; remove it first" in str(error) or "settings" in str(error)
    assert victim.read_text() == "precious\n"


def test_second_writer_is_refused_while_the_first_lives(tmp_path):
    path = str(tmp_path / "out.jsonl")
    with ResumableFile(path, {}) as out:
        out.write("a\n")
        for resume in (False, True):
            with pytest.raises(FileExistsError, match="out.jsonl.part is being written by another"):
                ResumableFile(path, {}, resume).__enter__()
    assert (tmp_path / "out.jsonl").read_text() == "a\n"
    assert names(tmp_path) == ["out.jsonl", "out.jsonl.run"]


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


def test_sync_writes_each_piece_to_disk_before_write_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append((tmp_path / "out.part").read_text()))
    with ResumableFile(str(tmp_path / "out"), sync=True) as file:
        for number in range(3):
            file.write_row({"n": number})
    assert [len(text.splitlines()) for text in synced] == [1, 2, 3]
    assert names(tmp_path) == ["out"], "without settings there is no settings file"


def test_interrupted_run_is_resumed_with_the_same_settings_only(tmp_path):
    path = tmp_path / "out.jsonl"
    settings = {"model": "a", "windows": (1, 2), "old": 1}
    interrupt(path, settings, '{"a": "\u2028\x85"}')
    assert names(tmp_path) == ["out.jsonl.part", "out.jsonl.part.run"]
    with open(tmp_path / "out.jsonl.part", "a") as part:
        part.write('{"cut')
    other = {"model": "b", "windows": (1, 2), "new": 2}
    with pytest.raises(
        ResumeError,
        match=r'started with model "a" \(now "b"\), old 1 \(now null\), new null \(now 2\)',
    ):
        ResumableFile(str(path), other, resume=True)
    with ResumableFile(str(path), settings, resume=True) as out:
        assert out.rows() == [{"a": "\u2028\x85"}]
        out.write("two\n")
    assert names(tmp_path) == ["out.jsonl", "out.jsonl.run"]
    # A complete file can be resumed as well, and stays complete if nothing is added.
    with pytest.raises(ValueError), ResumableFile(str(path), settings, resume=True) as again:
        with pytest.raises(ResumeError, match="line 2 is not a row of this command"):
            again.rows()
        assert read_settings(run_path(again.path)) is None, "it is the part file now"
        raise ValueError
    assert names(tmp_path) == ["out.jsonl", "out.jsonl.run"]
    assert read_settings(run_path(str(path))) == ResumableFile(str(path), settings).settings
    assert len(complete_lines(str(path))) == 2
    os.unlink(run_path(str(path)))
    with pytest.raises(ResumeError, match="its settings .*out.jsonl.run.* are missing; start over"):
        ResumableFile(str(path), settings, resume=True)


def test_new_run_keeps_the_part_file_of_an_interrupted_one(tmp_path):
    path = tmp_path / "out.jsonl"
    with ResumableFile(str(path), {"seed": 0}) as out:
        out.write("zero\n")
    interrupt(path, {"seed": 1}, "one")
    interrupt(path, {"seed": 2}, "two")
    assert (tmp_path / "out.jsonl.part.old").read_text() == "one\n"
    assert run_settings(str(tmp_path / "out.jsonl.part.old"))["seed"] == 1
    assert run_settings(str(path))["seed"] == 2
    for suffix in (".part", ".part.run"):
        os.unlink(f"{path}{suffix}")
    assert run_settings(str(path))["seed"] == 0 and path.read_text() == "zero\n"


def test_settings_are_found_after_a_crash_between_two_renames(tmp_path):
    path, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    with ResumableFile(str(path), {"seed": 1}) as out:
        out.write("one\n")
    os.replace(path, part)  # a resumed run gives the file its earlier name, and ends
    assert run_settings(str(path))["seed"] == 1
    os.replace(part, path)
    interrupt(path, {"seed": 2}, "two")
    os.replace(part, path)  # the file of lines gets its final name, and the run ends
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


def test_hard_links_are_not_written_through(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    (tmp_path / "x.csv.part").hardlink_to(victim)
    with pytest.raises(FileExistsError, match="x.csv.part is a link to a file; remove it first"):
        AtomicFile(str(tmp_path / "x.csv")).__enter__()
    assert victim.read_text() == "precious\n"


def test_deep_json_in_place_of_a_run(tmp_path):
    path = tmp_path / "x.jsonl"
    interrupt(path, {"seed": 1}, "[" * 100_000)
    out = ResumableFile(str(path), {"seed": 1}, resume=True)
    with pytest.raises(ResumeError, match="line 1 is not a row of this command"):
        out.rows()
    (tmp_path / "x.jsonl.part.run").write_text("[" * 100_000)
    assert run_settings(str(path)) is None

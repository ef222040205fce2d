"""Files that appear when they are complete, and logs that an interrupted run resumes."""

import errno
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import writing
from narrative_twins.writing import (
    JsonlLog,
    ResumeError,
    atomic_write,
    check_writable,
    digest_of_files,
    file_name,
)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    path.chmod(0o600)
    with atomic_write(path) as out:
        out.write("a\n")
        out.write(b"b\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == b"a\nb\n" and path.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["out.csv"]


def test_after_an_error_the_earlier_file_is_unchanged(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as out:
        out.write("a\n")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and names(tmp_path) == ["out.csv"]


def test_a_full_disk_is_reported_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(file, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing, "append", full)
    with pytest.raises(OSError, match=r"out\.csv can't be written: No space left"):
        with atomic_write(tmp_path / "out.csv") as out:
            out.write("a\n")
    assert names(tmp_path) == []


def test_what_can_not_be_written_is_said_before_work_is_done(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        check_writable(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        check_writable(tmp_path / "missing" / "out.csv")


def test_a_log_is_resumed_after_its_last_complete_row(tmp_path):
    path = tmp_path / "log.jsonl"
    with pytest.raises(KeyboardInterrupt), JsonlLog(path, {"model": "large"}) as log:
        log.append({"id": 1, "text": "é\u2028"})
        raise KeyboardInterrupt
    with path.open("a") as file:
        file.write('{"id": 2, "te')  # as after a power failure
    with JsonlLog(path, {"model": "large"}) as log:
        assert log.rows == [{"id": 1, "text": "é\u2028"}]
        log.append({"id": 2})
    assert [row["id"] for row in JsonlLog(path, {"model": "large"}).rows] == [1, 2]
    log.complete(tmp_path / "rows.jsonl")
    assert (tmp_path / "rows.jsonl").read_text() == '{"id": 1, "text": "é\u2028"}\n{"id": 2}\n'
    assert names(tmp_path) == ["rows.jsonl"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"id": 1}\n', "does not begin with the settings"),
        (b"text\n", "line 1 is not a row of this command"),
        (b"\xff\n", "line 1 is not in UTF-8"),
    ],
)
def test_a_file_that_is_no_log_is_not_resumed(tmp_path, content, problem):
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    with pytest.raises(ResumeError, match=problem):
        JsonlLog(path, {"model": "large"})
    assert path.read_bytes() == content


def test_a_log_is_written_by_one_run_at_a_time(tmp_path):
    with JsonlLog(tmp_path / "log.jsonl"):
        with pytest.raises(FileExistsError, match="is being written by another run"):
            JsonlLog(tmp_path / "log.jsonl").__enter__()


@given(st.lists(st.dictionaries(st.text(), st.text())), st.integers(0, 400))
def test_a_log_that_is_cut_anywhere_keeps_its_complete_rows(tmp_path_factory, rows, size):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    with JsonlLog(path, {}) as log:
        for row in rows:
            log.append(row)
    content = path.read_bytes()[:size]
    path.write_bytes(content)
    with JsonlLog(path, {}) as log:
        count = len(log.rows)
        assert log.rows == rows[: max(0, content.count(b"\n") - 1)]
        for row in rows[count:]:
            log.append(row)
    assert JsonlLog(path, {}).rows == rows


_HARD_TEXTS = st.one_of(
    st.text(),
    st.text("CcOoNn:*?<>|. ~_-/\\é\u0301", max_size=12),
    st.sampled_from(["con", "NUL", "com1.txt", "COM\u00b9", "lpt9", "..", "", "a.", "a ", "A"]),
)


@given(_HARD_TEXTS, _HARD_TEXTS)
def test_names_of_files_are_legal_everywhere(text, other):
    name = file_name(text)
    assert name and not set(name) & set('<>:"/\\|?*') and name.isprintable() and " " not in name
    assert name[-1] != "." and len(name.encode()) < 220
    ports = {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
    reserved = {"con", "prn", "aux", "nul"} | ports
    assert name.split(".")[0].lower() not in reserved
    # Names that differ in case or in the composition of letters only are one file there.
    both = (unicodedata.normalize("NFC", file_name(each).casefold()) for each in (text, other))
    assert (len(set(both)) == 1) == (text == other)


def test_common_names_stay():
    for name in ("film_0", "roc-val.2", "café", "短い話"):
        assert file_name(name) == name
    assert file_name("ROC: 1") == "ROC_1~" + file_name("ROC: 1")[-8:]


def test_a_digest_follows_names_and_content(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    first = digest_of_files(tmp_path)
    (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    second = digest_of_files(tmp_path)
    (tmp_path / "c.md").write_text("c")
    assert len({first, second, digest_of_files(tmp_path)}) == 3
    assert digest_of_files(tmp_path, {".txt"}) == second

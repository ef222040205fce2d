"""Disks that are full or read-only: each command that writes ends with one line that says so, and
leaves no file that looks complete. All run in a copy of the process of the tests with mounts of its
own, which mounts a small disk in memory for each and unmounts it."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from support.chat_server import Model, serving
from support.command import run
from support.models import SENTENCES
from support.processes import run_command, run_in_copy
from support.recognizers import save_pipeline

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount"
    ),
    pytest.mark.xdist_group("disks"),
]

DISKS = {"full": 0, "nearly full": 2, "read-only": None}
"""Kinds of disks, with the number of free blocks."""
BOOK = "Chapter 1\n\nNadia ran. It rained.\n\nChapter 2\n\nThe mill burned. She laughed.\n"
STORY = [f"{sentence} ({number})" for number, sentence in enumerate(SENTENCES * 3)][:24]
TWIN = [f"{sentence} So it was." for sentence in STORY]
ROWS = {
    "twins": {"id": "a", "story": STORY[:5], "twin": TWIN[:5], "negative": STORY[5:10]},
    "works": {"id": "w", "title": "W", "story": STORY, "twins": [TWIN, TWIN[1:]]},
    "votes": {"id": "a", "story": STORY[:5], "choices": [5, 1, 5]},
    "stories": {"text": " ".join(STORY[:5])},
}
KEPT = (".part", ".run", ".answers")
"""The suffixes of files that a run leaves for the next."""


class Outcome(NamedTuple):
    """What became of a command: its exit code, what it printed as errors, and the files that it
    left on the disk, of those that look complete, and of those that are not."""

    command: str
    disk: str
    code: int
    errors: str
    left: list[str]
    cut: list[str]


def commands(folder: Path, model: str, server: str) -> dict[str, list[str]]:
    """The commands by name, with `OUT` in the place of the output, and a suffix if the command asks
    for one."""
    encoder = f"--model {model} --dtype float32 --device cpu"
    asked = f"{folder}/stories.jsonl --server {server} --model tiny --quiet --out OUT.jsonl"
    lines = {
        "score jsonl": f"score {folder}/story.txt {encoder} --out OUT.jsonl",
        "show png": f"show {folder}/scores.jsonl --out OUT.png",
        "book jsonl": f"book {folder}/book.txt {encoder} --out OUT.jsonl",
        "extract md": f"extract {folder}/book.txt {encoder} --out OUT.md",
        "corpus": f"corpus {folder}/story.txt {encoder} --out OUT",
        "report": f"report {folder}/story.txt {encoder} --out OUT",
        "evaluate": f"evaluate {folder}/votes.jsonl --model tiny={model} --out OUT",
        "data export": "data export OUT",
        "make twins": f"make twins {asked}",
        "make judgments": f"make judgments {asked}",
        "make align": f"make align {folder}/works.jsonl --encoder {model} --device cpu"
        " --min-window 1 --out OUT.jsonl",
        "make entities": f"make entities {folder}/twins.jsonl --pipeline {folder}/pipeline"
        " --out OUT.jsonl",
    }
    return {name: line.split() for name, line in lines.items()}


def write_inputs(folder: Path, model: str) -> None:
    (folder / "story.txt").write_text(" ".join(STORY[:5]))
    (folder / "book.txt").write_text(BOOK)
    for name, row in ROWS.items():
        (folder / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    save_pipeline(folder / "pipeline")
    scores = folder / "scores.jsonl"
    assert run("score", folder / "story.txt", "--model", model, "--out", scores).code == 0


def _run(*command: object) -> None:
    done = run_command(*command)
    if done.returncode:
        raise OSError(done.stderr)


@contextmanager
def mounted(disk: Path, free: int | None) -> Iterator[None]:
    """A small disk with this number of free blocks; read-only for None."""
    _run("mount", "-t", "tmpfs", "-o", "size=64k", "none", disk)
    try:
        if free is None:
            _run("mount", "-o", "remount,ro", disk)
        else:
            (disk / "other").write_bytes(b"x" * (65_536 - 4_096 * free))
        yield
    finally:
        _run("umount", "--lazy", disk)


def run_all(folder: Path, model: str) -> Iterator[Outcome]:
    """Run all commands on all disks."""
    (disk := folder / "disk").mkdir()
    with serving(Model()) as server:
        for name, arguments in commands(folder, model, server.address).items():
            for kind, free in DISKS.items():
                with mounted(disk, free):
                    done = run(*(part.replace("OUT", str(disk / "out")) for part in arguments))
                    files = [path for path in disk.rglob("*") if path.is_file()]
                    left = sorted(
                        path for path in files if path.suffix not in KEPT and path.name != "other"
                    )
                    names = [path.name for path in left]
                    cut = [path.name for path in left if not is_complete(path)]
                    yield Outcome(name, kind, done.code, done.err, names, cut)


def is_complete(path: Path) -> bool:
    """Whether a file is JSON Lines, of which each has its end."""
    try:
        text = path.read_text(encoding="utf-8")
        return bool(text.endswith("\n") and list(map(json.loads, text.splitlines())))
    except ValueError:
        return False


def all_outcomes(folder: Path, model: str) -> list[Outcome] | None:
    """The outcome of each command on each kind of disk; None where nothing can be mounted."""
    file = folder / "outcomes.json"

    def work() -> None:
        disk = folder / "probe"
        disk.mkdir()
        try:
            # Mounts of this process alone (CLONE_NEWNS), as `unshare --mount` has them.
            if ctypes.CDLL(None).unshare(0x20000):
                raise OSError("no mounts of its own")
            _run("mount", "--make-rprivate", "/")
            with mounted(disk, 0):
                pass
        except OSError:
            file.write_text("null")
            return
        write_inputs(folder, model)
        file.write_text(json.dumps(list(run_all(folder, model))))

    assert run_in_copy(work) == 0
    found = json.loads(file.read_text())
    return None if found is None else [Outcome(*values) for values in found]


NAMES = list(commands(Path(), "", ""))
MESSAGES = {
    "full": "No space left on device",
    "nearly full": "No space left on device",
    "read-only": "Read-only file",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, bert_folder) -> dict[tuple[str, str], Outcome]:
    pytest.importorskip("spacy")
    found = all_outcomes(tmp_path_factory.mktemp("disks"), bert_folder)
    if found is None:
        pytest.skip("nothing can be mounted here")
    return {(outcome.command, outcome.disk): outcome for outcome in found}


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("name", NAMES)
def test_a_disk_that_can_not_be_written(name, disk, outcomes):
    found = outcomes[name, disk]
    if found.code == 0 and disk == "nearly full":
        return  # what it writes is small
    assert found.code == 1, found
    assert MESSAGES[disk] in found.errors.splitlines()[-1], found
    assert found.errors.splitlines()[-1].startswith("narrative-twins: "), found
    assert "Traceback" not in found.errors
    # On a disk that is nearly full, an earlier file of several may be complete.
    assert not (found.cut if disk == "nearly full" else found.left), found

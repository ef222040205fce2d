"""Disks that are full or read-only: each command that writes ends with one line that says so, and
leaves no file that looks complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.disks import DISKS, Outcome, all_outcomes, commands

NAMES = list(commands(Path(), "", ""))
MESSAGES = {
    "full": "No space left on device",
    "nearly full": "No space left on device",
    "read-only": "Read-only file",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount"
    ),
    pytest.mark.xdist_group("disks"),
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, bert_folder) -> dict[tuple[str, str], Outcome]:
    pytest.importorskip("spacy")
    pytest.importorskip("onnxruntime")
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

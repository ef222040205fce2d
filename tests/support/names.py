"""Files whose names are not UTF-8."""

from __future__ import annotations

from pathlib import Path

OUTPUTS = {
    "score": ["o\udcff.jsonl", "o\udcff.csv", "o\udcff.html", "o\udcff.txt"],
    "report": ["r\udcff"],
    "book": ["b\udcff.jsonl", "b\udcff.json", "b\udcff.html"],
    "extract": ["e\udcff.md"],
    "corpus": ["c\udcff"],
}
"""Commands, with outputs that they write."""


def named_by_bytes(folder: Path) -> tuple[Path, Path]:
    """A story in a folder, and a file that does not exist, whose names are not UTF-8."""
    (story := folder / "st\udcff.txt").write_text("Nadia found a map. It led to a mill.")
    return story, folder / "no\udcff.txt"

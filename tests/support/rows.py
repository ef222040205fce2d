"""Rows as JSON Lines."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """Write rows to a file, in a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def read_rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]

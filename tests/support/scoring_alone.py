"""Scores stories with nothing installed but what scoring needs, and compares them with those in
README.md:

    python tests/support/scoring_alone.py

Libraries of extras must be missing, and what needs them must say so.
"""

from __future__ import annotations

import contextlib
import io
import re
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from transformers import pipeline

import narrative_twins
from narrative_twins.commands.cli import main as command

FOLDER = Path(__file__).parents[2]
STORIES = FOLDER / "examples" / "stories"


def scores_in_readme() -> list[float]:
    """The scores of summarization that README.md shows after its first example."""
    shown = re.findall(
        r"^(0\.\d{3})  \S", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    return [float(score) for score in shown]


def main() -> None:
    assert not any(
        map(find_spec, ("datasets", "sentence_transformers", "accelerate", "pyarrow", "scipy"))
    )
    result = pipeline("narrative-salience")(
        (STORIES / "window_cleaner.txt").read_text(encoding="utf-8")
    )
    scores = result["scores"]["summarization"]
    assert all(abs(a - b) < 0.005 for a, b in zip(scores, scores_in_readme(), strict=True)), scores
    assert command(["score", *sorted(map(str, STORIES.glob("*.txt"))), "--processes", "2"]) == 0
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        assert command(["evaluate", "--data", "stories"]) == 1
    assert "pip install 'narrative_twins[train]'" in errors.getvalue(), errors.getvalue()
    try:
        narrative_twins.push_encoder  # noqa: B018
    except ImportError as error:
        print(error)
    else:
        raise AssertionError("pushing needs libraries of an extra")
    print(f"scores are as known, with transformers {metadata.version('transformers')}")


if __name__ == "__main__":
    main()

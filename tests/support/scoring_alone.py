"""Scores stories with nothing installed but what scoring needs, and compares them with the scores in
README.md:

    python tests/support/scoring_alone.py

Libraries of extras must be missing; that what needs them says so is in tests/test_extras.py.
"""

import re
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from transformers import pipeline

from narrative_twins.commands.cli import main as command

ROOT = Path(__file__).parents[2]
STORIES = sorted((ROOT / "examples" / "stories").glob("*.txt"))


def main() -> None:
    extras = "datasets", "sentence_transformers", "accelerate", "pyarrow", "scipy"
    assert not any(map(find_spec, extras))
    # The scores of summarization that README.md shows after its first example.
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = map(float, re.findall(r"^(0\.\d{3})  \S", readme, re.MULTILINE))
    story = ROOT / "examples" / "stories" / "window_cleaner.txt"
    result = pipeline("narrative-salience")(story.read_text(encoding="utf-8"))
    for score, expected in zip(result["scores"]["summarization"], shown, strict=True):
        assert abs(score - expected) < 0.005, (score, expected)
    assert command(["score", *map(str, STORIES), "--processes", "2"]) == 0
    print(f"scores are as known, with transformers {metadata.version('transformers')}")


if __name__ == "__main__":
    main()

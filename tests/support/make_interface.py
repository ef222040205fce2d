"""Writes tests/interface.json, the public interface, which test_interface.py compares the package
with.

    PYTHONPATH=tests python -m support.make_interface

Run it only after a deliberate change of the interface, not to make a test pass. The file has

- `names`: for each module that users import from, the public names in it;
- `usage`: for each command of `narrative-twins`, the usage line of its `--help`: all options with
  their choices;
- `scores`: the scores of some packaged stories by the default encoder, in float32.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from pkgutil import resolve_name

import narrative_twins
from narrative_twins import StoryEncoder, score_stories
from narrative_twins.commands.cli import main as narrative_twins_command
from narrative_twins.data import load_story_twins, load_window_twins

FILE = Path(__file__).parent.parent / "interface.json"
MODULES = (
    "baselines",
    "corpora",
    "data",
    "encoder",
    "evaluation",
    "hub",
    "metrics",
    "pipeline",
    "salience",
    "show",
    "training",
)
COMMANDS = (
    "",
    "score",
    "show",
    "extract",
    "report",
    "evaluate",
    "app",
    "export",
    "push",
    "data",
    "data export",
)
COMMANDS += ("make", "make twins", "make judgments", "make align", "make entities")


def names() -> dict[str, list[str]]:
    """Public names by module: its functions and classes from this package."""
    found = {"narrative_twins": list(narrative_twins.__all__)}
    for name in MODULES:
        module = resolve_name(f"narrative_twins.{name}")
        members = [(key, getattr(module, key)) for key in dir(module)]
        public = [key for key, value in members if not key.startswith("_") and _is_ours(value)]
        found[f"narrative_twins.{name}"] = sorted(public)
    return found


def _is_ours(value: object) -> bool:
    return str(getattr(value, "__module__", "")).startswith("narrative_twins.")


def usage(command: str) -> str:
    """The usage line of a command, on one line."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        narrative_twins_command([*command.split(), "--help"])
    line = printed.getvalue().partition("usage: ")[2].partition("\n\n")[0]
    return " ".join(line.split())


def scores() -> list[dict[str, list[float]]]:
    """Scores by operation: of 20 short stories, and of the first two windows of a synopsis, to be
    fast."""
    encoder = StoryEncoder.from_pretrained(device="cpu", dtype="float32")
    stories = [row["story"] for row in load_story_twins(split="validation[:20]")]
    stories += [row["story"][:2] for row in load_window_twins(split="validation[:1]")]
    found = [result.scores for result in score_stories(stories, encoder, on_truncation="ignore")]
    return [
        {name: [round(score, 9) for score in values] for name, values in by_name.items()}
        for by_name in found
    ]


def main() -> None:
    content = {
        "names": names(),
        "usage": {command: usage(command) for command in COMMANDS},
        "scores": scores(),
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes tests/interface.json, the public interface, which test_interface.py compares the package
with.

    PYTHONPATH=tests python -m support.make_interface

Run it only after a deliberate change of the interface, not to make a test pass. The file has

- `names`: for each module that users import from, the public names in it;
- `usage`: for each command of `narrative-twins`, its arguments and all options with their choices;
- `scores`: the scores of some packaged stories by the default encoder, in float32.
"""

from __future__ import annotations

import json
from pathlib import Path
from pkgutil import resolve_name

import click

import narrative_twins
from narrative_twins import StoryEncoder, score_stories
from narrative_twins.commands.cli import LazyGroup, command_line
from narrative_twins.data import load_story_twins, load_window_twins

FILE = Path(__file__).parent.parent / "interface.json"
MODULES = (
    "baselines",
    "books",
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


def usage() -> dict[str, str]:
    """The arguments and options of each command, as its `--help` shows them."""
    found: dict[str, str] = {}

    def collect(group: LazyGroup, parent: click.Context) -> None:
        for name in group.list_commands(parent):
            command = group.get_command(parent, name)
            context = click.Context(command, info_name=name, parent=parent)
            path = context.command_path.partition(" ")[2]
            if isinstance(command, LazyGroup):
                collect(command, context)
                continue
            found[path] = ", ".join(
                sorted(
                    " ".join(
                        [*param.opts[-1:], *([] if is_flag(param) else [metavar(param, context)])]
                    )
                    for param in command.params
                )
            )

    settings = command_line.context_settings
    collect(command_line, click.Context(command_line, info_name="narrative-twins", **settings))
    return found


def is_flag(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and param.is_flag


def metavar(param: click.Parameter, context: click.Context) -> str:
    """The choices of an option, or what stands for its value."""
    return "|".join(getattr(param.type, "choices", ())) or str(param.make_metavar(context))


def scores() -> list[dict[str, list[float]]]:
    """Scores by operation: of short stories, and of the first two windows of a synopsis."""
    encoder = StoryEncoder.from_pretrained(device="cpu", dtype="float32")
    stories = [row["story"] for row in load_story_twins(split="validation[:5]")]
    stories += [row["story"][:2] for row in load_window_twins(split="validation[:1]")]
    found = [result.scores for result in score_stories(stories, encoder, on_truncation="ignore")]
    return [
        {name: [round(score, 9) for score in values] for name, values in by_name.items()}
        for by_name in found
    ]


def main() -> None:
    content = {"names": names(), "usage": usage(), "scores": scores()}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes tests/interface.json, the public interface, which test_interface.py compares the package
with.

    PYTHONPATH=tests python -m support.make_interface

Run it only after a deliberate change of the interface, not to make a test pass. The file has

- `names`: for each module that users import from, the public names in it;
- `usage`: for each command of `narrative-twins`, its arguments and all options with their choices;
- `scores`: the scores of some packaged stories by the default encoder, in float32.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import click

import narrative_twins
from narrative_twins import StoryEncoder, score_stories
from narrative_twins.commands.cli import command_line
from narrative_twins.data import load_story_twins, load_window_twins

FILE = Path(__file__).parent.parent / "interface.json"
MODULES = (
    "baselines books corpora data encoder evaluation hub metrics pipeline salience show"
    " training".split()
)


def names() -> dict[str, list[str]]:
    """Public names by module: its functions and classes from this package."""
    public = {"narrative_twins": list(narrative_twins.__all__)}
    for name in MODULES:
        module = resolve_name(f"narrative_twins.{name}")
        members = [(key, getattr(module, key)) for key in dir(module) if not key.startswith("_")]
        ours = [key for key, value in members if _module_of(value).startswith("narrative_twins.")]
        public[f"narrative_twins.{name}"] = sorted(ours)
    return public


def _module_of(value: object) -> str:
    return str(getattr(value, "__module__", ""))


def usage() -> dict[str, str]:
    """The arguments and options of each command, as its `--help` shows them."""
    settings = command_line.context_settings
    top = click.Context(command_line, info_name="narrative-twins", **settings)
    return dict(_usage(command_line, top))


def _usage(group: click.Group, parent: click.Context) -> Iterator[tuple[str, str]]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        context = click.Context(command, info_name=name, parent=parent)
        if isinstance(command, click.Group):
            yield from _usage(command, context)
        else:
            shown = sorted(_shown(param, context) for param in command.params)
            yield context.command_path.partition(" ")[2], ", ".join(shown)


def _shown(param: click.Parameter, context: click.Context) -> str:
    """The name of an option, and its choices or what stands for its value."""
    name = " ".join(param.opts[-1:])
    if isinstance(param, click.Option) and param.is_flag:
        return name
    choices = "|".join(getattr(param.type, "choices", ()))
    return f"{name} {choices or param.make_metavar(context)}"


def scores() -> list[dict[str, list[float]]]:
    """Scores by operation: of short stories, and of the first two windows of a synopsis."""
    encoder = StoryEncoder.from_pretrained(device="cpu", dtype="float32")
    stories = [row["story"] for row in load_story_twins(split="validation[:5]")]
    stories += [row["story"][:2] for row in load_window_twins(split="validation[:1]")]
    return [
        {name: [round(score, 9) for score in values] for name, values in result.scores.items()}
        for result in score_stories(stories, encoder, on_truncation="ignore")
    ]


if __name__ == "__main__":
    content = {"names": names(), "usage": usage(), "scores": scores()}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

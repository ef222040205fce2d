"""The public interface is unchanged: names and their modules, options of commands, scores. They are
in tests/interface.json, by module and command; the scores are of some packaged stories by the
default encoder, in float32.

    PYTHONPATH=tests python -m test_interface

writes the file anew. Run it only after a deliberate change of the interface, not to make a test
pass."""

import json
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import click
import pytest

import narrative_twins
from narrative_twins import StoryEncoder, score_stories
from narrative_twins.commands.cli import command_line
from narrative_twins.data import load_story_twins, load_window_twins

FILE = Path(__file__).parent / "interface.json"
INTERFACE = json.loads(FILE.read_text(encoding="utf-8"))
MODULES = (
    "baselines books corpora data encoder evaluation hub metrics pipeline salience show"
    " training".split()
)


def public_names() -> dict[str, list[str]]:
    """For each module that users import from, its functions and classes from this package."""
    public = {"narrative_twins": list(narrative_twins.__all__)}
    for name in MODULES:
        module = resolve_name(f"narrative_twins.{name}")
        members = [(key, getattr(module, key)) for key in dir(module) if not key.startswith("_")]
        places = [(key, str(getattr(value, "__module__", ""))) for key, value in members]
        ours = [key for key, place in places if place.startswith("narrative_twins.")]
        public[f"narrative_twins.{name}"] = sorted(ours)
    return public


def usage(group: click.Group = command_line, parent: click.Context | None = None) -> dict[str, str]:
    """For each command, its arguments and all options with their choices, as `--help` shows them."""
    settings = group.context_settings
    parent = parent or click.Context(group, info_name="narrative-twins", **settings)
    found = {}
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        context = click.Context(command, info_name=name, parent=parent)
        if isinstance(command, click.Group):
            found |= usage(command, context)
        else:
            shown = sorted(shown_parameter(param, context) for param in command.params)
            found[context.command_path.partition(" ")[2]] = ", ".join(shown)
    return found


def shown_parameter(param: click.Parameter, context: click.Context) -> str:
    """The name of an option, and its choices or what stands for its value."""
    name = " ".join(param.opts[-1:])
    if isinstance(param, click.Option) and param.is_flag:
        return name
    choices = "|".join(getattr(param.type, "choices", ()))
    return f"{name} {choices or param.make_metavar(context)}"


def scores() -> Iterator[dict[str, list[float]]]:
    """Scores by operation: of short stories, and of the first two windows of a synopsis."""
    encoder = StoryEncoder.from_pretrained(device="cpu", dtype="float32")
    stories = [row["story"] for row in load_story_twins(split="validation[:5]")]
    stories += [row["story"][:2] for row in load_window_twins(split="validation[:1]")]
    for result in score_stories(stories, encoder, on_truncation="ignore"):
        yield {name: [round(x, 9) for x in values] for name, values in result.scores.items()}


@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for module, names in INTERFACE["names"].items() for name in names],
)
def test_public_names_are_unchanged(module, name):
    assert getattr(resolve_name(module), name) is not None


def test_options_of_commands_are_unchanged():
    assert usage() == INTERFACE["usage"]


@pytest.mark.slow
def test_scores_are_unchanged():
    for found, expected in zip(scores(), INTERFACE["scores"], strict=True):
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            assert found[name] == pytest.approx(values, abs=1e-6)


if __name__ == "__main__":
    content = {"names": public_names(), "usage": usage(), "scores": list(scores())}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

"""Options of scoring, as commands have them."""

from __future__ import annotations

from typing import Any

import click

from narrative_twins.commands.signatures import Choices, Group, Names, Option, Parsed
from narrative_twins.extras import user_module
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.options import SCORING_OPTIONS, OptionInfo, ScoringOptions

IMPORT = Option(
    ["--import", "imported"],
    type=Parsed(user_module),
    multiple=True,
    is_eager=True,
    metavar="MODULE",
    help="Import a module or a .py file, which registers operations; can be repeated.",
    heading="Options",
)


def _splitter(text: str) -> Any:
    """Return the function that `text` names as `MODULE:FUNCTION`, or `text`, a splitter's name."""
    module, colon, name = text.rpartition(":")
    function = getattr(user_module(module), name, None) if colon else None
    return function if callable(function) else text


_TYPES = {"operations": Names(lambda: OPERATIONS), "splitter": Parsed(_splitter)}
_METAVARS = {"operations": "A,B", "splitter": "NAME"}


def _declared(name: str, default: Any) -> list[Option]:
    """Return what a command has for an option of scoring: one option, or its flags."""
    info = SCORING_OPTIONS[name]
    settings: dict[str, Any] = {"default": default, "heading": "Scoring"}
    if info.flags:
        return [
            Option(
                [f"--{flag}", name],
                flag_value=value,
                help=text + " (default)" * (value == str(default or "none")),
                **settings,
            )
            for flag, (value, text) in info.flags.items()
        ]
    flag = "split" if name == "splitter" else name.replace("_", "-")
    option = Option(
        [f"--{flag}", name],
        type=_TYPES.get(name, _type(info)),
        metavar=None if info.choices else _METAVARS.get(name, "N"),
        help=info.help,
        show_default=bool(default) and "default" not in info.help,
        **settings,
    )
    return [option]


def _type(info: OptionInfo) -> Any:
    """Return the click type for the values of an option of scoring; None for a plain text."""
    if info.is_count:
        return click.IntRange(min=1)
    if info.choices:
        return Choices(lambda: info.choices)
    return Parsed(info.parse) if info.parse else None


def scoring_options(*names: str, **defaults: Any) -> Group:
    """Return the group of the scoring options `names`, by default of all but `on_error` and
    `progress`, which commands set. The group makes `ScoringOptions`, whose defaults `defaults`
    replace."""
    options: list[click.Parameter] = [IMPORT]
    for name in names or [name for name in SCORING_OPTIONS if name not in ("on_error", "progress")]:
        options += _declared(name, defaults.get(name, SCORING_OPTIONS[name].default))

    def made(imported: Any, **values: Any) -> ScoringOptions:
        """Return the options with these values, where the text `none` stands for None."""
        values = {name: None if value == "none" else value for name, value in values.items()}
        return ScoringOptions(**{**defaults, **values})

    return Group(made, options)

"""`narrative-twins make`: training data, made or changed; what of it is a command of its own."""

from __future__ import annotations

from typing import Any

from narrative_twins.commands import make_entities

MODULES = (make_entities,)


def add_parser(commands: Any) -> None:
    """Add the command, and under it one for each thing to make."""
    parser = commands.add_parser("make", help="make training data", description="Make training data.")
    things = parser.add_subparsers(required=True, metavar="WHAT")
    for module in MODULES:
        module.add_parser(things)

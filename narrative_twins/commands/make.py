"""`narrative-twins make`: makes data to train on; one kind a module."""

from __future__ import annotations

from typing import Any

from narrative_twins.commands import make_twins


def add_parser(commands: Any) -> None:
    """Add the command, and those below it."""
    parser = commands.add_parser("make", help="make data to train on", description="Make data to train on.")
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for kind in (make_twins,):
        kind.add_parser(kinds)

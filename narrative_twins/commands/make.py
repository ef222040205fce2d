"""`narrative-twins make`: data to train on, made or changed. What there is to make are commands of their own, one a
module."""

from __future__ import annotations

from typing import Any

from narrative_twins.commands import make_align, make_entities, make_twins

MAKERS = (make_twins, make_align, make_entities)


def add_parser(commands: Any) -> None:
    """Add the command with all that it makes."""
    parser = commands.add_parser("make", help="make data to train on", description="Make data to train on.")
    makers = parser.add_subparsers(required=True, metavar="WHAT")
    for maker in MAKERS:
        maker.add_parser(makers)

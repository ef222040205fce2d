"""The house: a module imports only from lower floors, so imports go one way and in no circle."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import narrative_twins

FLOORS = [
    {"story", "operations", "metrics"},
    {"files", "pooling", "result", "tokens"},
    {"checkpoint"},
    {"encoder"},
    {"salience"},
    {"pipeline", "show"},
    {"formats"},
    {"cli"},
    {"__init__"},
]
FLOOR = {module: number for number, modules in enumerate(FLOORS) for module in modules}
HOUSE = Path(narrative_twins.__file__).parent
HEAVY = {
    "torch": {"pooling", "checkpoint", "encoder"},
    "transformers": {"checkpoint", "encoder", "pipeline", "cli"},
    "rich": {"show", "formats", "cli"},
    "scipy": {"metrics"},
    "tqdm": {"salience", "cli"},
    "syntok": {"story"},
    # Only inside the one function that gives a data frame.
    "pandas": {"result"},
}
"""Which modules may know of a library."""


def imports_of(module: str, nodes=ast.walk) -> set[str]:
    """Full names of what a module imports, wherever in it."""
    found = set()
    for node in nodes(ast.parse((HOUSE / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_every_module_has_a_floor():
    assert {path.stem for path in HOUSE.rglob("*.py")} == set(FLOOR)


@pytest.mark.parametrize("module", sorted(FLOOR))
def test_imports_only_go_down(module):
    for name in imports_of(module):
        package, _, rest = name.partition(".")
        if package == "narrative_twins":
            imported = rest.split(".")[0]
            assert imported in FLOOR, f"{module} imports {name} through the door"
            assert FLOOR[imported] < FLOOR[module], f"{module} imports {imported}, which is not on a floor below"


@pytest.mark.parametrize("library", HEAVY)
def test_libraries_stay_in_their_rooms(library):
    assert {module for module in FLOOR if any(name.split(".")[0] == library for name in imports_of(module))} == HEAVY[
        library
    ]


def test_no_circles():
    """True by the floors; on its own, so that a new floor plan can't let one in."""
    below = {
        module: {name.split(".")[1] for name in imports_of(module) if name.startswith("narrative_twins.")} & set(FLOOR)
        for module in FLOOR
    }
    while below:
        leaves = {module for module, needs in below.items() if not needs & set(below)}
        assert leaves, f"a circle among {sorted(below)}"
        below = {module: needs for module, needs in below.items() if module not in leaves}


def test_modules_are_short():
    for path in HOUSE.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name

"""The house: a module imports only from lower floors, so imports go one way and in no circle."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import narrative_twins

FLOORS = [
    {"story", "operations", "metrics", "optimizer", "configs", "precision", "files", "printable"}
    | {"making.__init__", "making.alignment", "making.names", "making.templates"},
    {"pictures", "pooling", "tokens", "data.rows", "data.tripod", "making.titles"},
    {"cards", "checkpoint", "collator", "curves", "packed", "plans", "plots", "data.records", "data.shapes"}
    | {"making.answers", "making.checks", "making.mentions", "making.works"},
    {"passes", "losses", "result", "row_cards", "self_contained", "trainable", "data.sources"}
    | {"making.embedding", "making.filters", "making.identities", "making.server", "making.tell_me_again"},
    {"encoder", "making.chat", "making.facts", "making.long_twins", "making.missed"},
    {"salience", "hub", "data.builders", "making.entities", "making.running"},
    {"pipeline", "sharing", "show", "evaluation", "desk", "prompted", "data.loading", "making.recipes"}
    | {"commands.numbers"},
    {"formats", "index", "shaded", "training", "recipes", "data.__init__", "commands.__init__", "commands.inputs"}
    | {"commands.outputs", "making.twins"},
    {"mlm", "page", "report", "commands.push", "commands.score", "making.estimates"},
    {"layout", "commands.report", "commands.make_align", "commands.make_entities", "commands.make_twins"},
    {"app", "commands.make"},
    {"commands.app"},
    {"cli"},
    {"__init__"},
]
FLOOR = {module: number for number, modules in enumerate(FLOORS) for module in modules}
HOUSE = Path(narrative_twins.__file__).parent
HEAVY = {
    "torch": {
        "pooling",
        "checkpoint",
        "collator",
        "encoder",
        "evaluation",
        "losses",
        "mlm",
        "optimizer",
        "packed",
        "passes",
        "precision",
        "training",
    },
    "transformers": {
        "checkpoint",
        "configs",
        "curves",
        "encoder",
        "mlm",
        "packed",
        "pipeline",
        "recipes",
        "trainable",
        "training",
        "commands.app",
        "commands.inputs",
        "commands.make_align",
        "commands.push",
    },
    "sentence_transformers": {"evaluation", "losses", "mlm", "recipes", "trainable", "training", "making.embedding"},
    # Only inside functions, and to name its types.
    "matplotlib": {"pictures", "plots", "result", "show"},
    "rich": {"show", "formats", "page", "commands.score"},
    # Only inside functions, since they come with an extra.
    "gradio": {"layout"},
    "fastapi": {"app"},
    "uvicorn": {"app"},
    "scipy": {"metrics"},
    # Only inside the function that loads a pipeline.
    "spacy": {"making.entities"},
    "tqdm": {
        "salience",
        "trainable",
        "commands.inputs",
        "commands.make_align",
        "commands.make_entities",
        "making.running",
    },
    # Only inside the one class that asks.
    "openai": {"making.chat"},
    "syntok": {"story"},
    # Only inside the one function that gives a data frame.
    "pandas": {"result"},
    "datasets": {
        "data.builders",
        "data.loading",
        "hub",
        "mlm",
        "recipes",
        "row_cards",
        "trainable",
        "training",
        "making.facts",
    },
    "huggingface_hub": {"cards", "data.sources", "hub", "row_cards"},
    "pyarrow": {"data.records"},
    "yaml": {"cards", "configs"},
}
"""Which modules may know of a library."""
ROOMS = {
    "data": {"story", "metrics"},
    "making": {"story", "files", "cards", "row_cards", "checkpoint", "data.loading", "data.rows", "data.shapes"},
}
"""What the modules of a subpackage may import besides each other."""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(HOUSE).with_suffix("").parts)


def module_of(name: str) -> str:
    """The module of this package that a full name belongs to: the longest, or else the door of a room or the house."""
    parts = name.split(".")[1:]
    starts = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    doors = [f"{start}.__init__" for start in starts]
    return next((module for module in starts + doors if module in FLOOR), "__init__")


def imports_of(module: str, nodes=ast.walk) -> set[str]:
    """Full names of what a module imports, wherever in it."""
    found = set()
    for node in nodes(ast.parse((HOUSE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_every_module_has_a_floor():
    assert {name_of(path) for path in HOUSE.rglob("*.py")} == set(FLOOR)


@pytest.mark.parametrize("module", sorted(FLOOR))
def test_imports_only_go_down(module):
    for name in imports_of(module):
        if name.split(".")[0] == "narrative_twins":
            imported = module_of(name)
            assert imported != "__init__", f"{module} imports {name} through the door"
            assert FLOOR[imported] < FLOOR[module], f"{module} imports {imported}, which is not on a floor below"


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_need_little_of_the_rest(room):
    inside = {module for module in FLOOR if module.startswith(f"{room}.")}
    for module in inside:
        needs = {module_of(name) for name in imports_of(module) if name.startswith("narrative_twins.")}
        assert needs <= inside | ROOMS[room], f"{module} leaves its room"


@pytest.mark.parametrize("library", HEAVY)
def test_libraries_stay_in_their_rooms(library):
    assert {module for module in FLOOR if any(name.split(".")[0] == library for name in imports_of(module))} == HEAVY[
        library
    ]


def test_no_circles():
    """True by the floors; on its own, so that a new floor plan can't let one in."""
    below = {
        module: {module_of(name) for name in imports_of(module) if name.startswith("narrative_twins.")}
        for module in FLOOR
    }
    while below:
        leaves = {module for module, needs in below.items() if not needs & set(below)}
        assert leaves, f"a circle among {sorted(below)}"
        below = {module: needs for module, needs in below.items() if module not in leaves}


def test_modules_are_short():
    for path in HOUSE.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name

"""The architecture: layers of subpackages, imports from lower layers only, no import cycles, and
each library in the subpackages that may import it."""

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import narrative_twins

ORDER = """
extras text writing
stories plots
data encoder
hub salience
baselines books prompting
evaluation pipeline show making integrations corpora
training app
commands
""".split("\n")
"""Subpackages and modules at the top, lowest layer first. Those on the same line do not
import each other."""
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names.split()}
# The root package re-exports names of subpackages, and `__main__` starts the command line.
LEVEL |= {"__init__": len(ORDER), "__main__": len(ORDER)}

PACKAGE = Path(narrative_twins.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

LIBRARIES = {
    "app": "fastapi gradio uvicorn",
    "books": "lxml markdown_it matplotlib pandas pypdf",
    "commands": "click datasets rich tqdm transformers",
    "corpora": "pyarrow",
    "data": "datasets huggingface_hub pyarrow yaml",
    "encoder": "huggingface_hub peft torch transformers",
    "evaluation": "pandas scipy",
    "hub": "datasets huggingface_hub yaml",
    "integrations": "spacy",
    "making": "faker spacy torch tqdm",
    "pipeline": "transformers",
    "plots": "matplotlib",
    "prompting": "openai pydantic tqdm",
    "salience": "matplotlib pandas torch tqdm",
    "show": "jinja2 rich",
    "stories": "sentencex syntok",
    "training": "datasets sentence_transformers torch transformers yaml",
}
"""The libraries that each subpackage imports, anywhere in its modules."""


def package_of(module: str) -> str:
    return module.split(".")[0]


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imports_of(module: str) -> frozenset[str]:
    found = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@cache
def own_imports(module: str) -> frozenset[str]:
    """The modules of this package that a module imports, for example `data.rows` for the name
    `data.rows.find`."""
    found = set()
    for name in imports_of(module):
        package, *parts = name.split(".")
        if package == "narrative_twins":
            starts = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
            candidates = [*starts, *(f"{start}.__init__" for start in starts), "__init__"]
            found.add(next(candidate for candidate in candidates if candidate in MODULES))
    return frozenset(found)


def test_every_module_is_in_a_layer():
    assert {package_of(module) for module in MODULES} == set(LEVEL)


def test_imports_are_from_lower_layers_only():
    upward = [
        f"{module} imports {imported}"
        for module in MODULES
        for imported in own_imports(module)
        if package_of(imported) != package_of(module)
        and LEVEL[package_of(imported)] >= LEVEL[package_of(module)]
    ]
    assert not upward


def test_there_are_no_import_cycles():
    try:
        TopologicalSorter({module: own_imports(module) for module in MODULES}).prepare()
    except CycleError as error:
        pytest.fail(f"an import cycle: {' -> '.join(error.args[1])}")


def test_init_modules_only_reexport_names():
    for module in MODULES:
        if "." not in module or not module.endswith("__init__"):
            continue
        for node in tree_of(module).body:
            is_lazy = "lazy_loader" in ast.unparse(node)
            assert is_lazy or isinstance(node, (ast.Expr, ast.ImportFrom)), (
                f"{module}, line {node.lineno}"
            )


def test_modules_import_names_from_where_they_are_defined():
    """Not from an `__init__`, which would import the whole subpackage for a single name."""
    indirect = [
        (module, imported)
        for module in MODULES
        if not module.startswith("__")
        for imported in own_imports(module)
        if imported.endswith("__init__")
    ]
    assert not indirect


def test_libraries_stay_in_their_subpackages():
    listed = {name for names in LIBRARIES.values() for name in names.split()}
    used = {package: set() for package in LEVEL}
    for module in MODULES:
        used[package_of(module)] |= listed & {name.split(".")[0] for name in imports_of(module)}
    assert used == {package: set(LIBRARIES.get(package, "").split()) for package in LEVEL}


def test_no_two_classes_have_the_same_name():
    nodes = [node for module in MODULES for node in ast.walk(tree_of(module))]
    counts = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, count in counts.items() if count > 1] == []

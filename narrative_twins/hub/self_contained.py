"""The self-contained form of an encoder's repository: the checkpoint with the code of the pipeline beside it, for
people who do not have this package.

It is the package's own code, module by module, in files that import each other. A repository that carries code asks
everyone for trust, those who have the package too; so it is a form apart, see `hub.push_encoder`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from narrative_twins.encoder.checkpoint import SETTINGS, CheckpointSettings

PACKAGE = Path(__file__).parent.parent
_DOOR = "pipeline"
_OPTIONAL = ("syntok", "pandas", "matplotlib")
"""Libraries that are needed for some things only; what is imported outright has to be there for anything."""


def self_contained_files(encoder: dict[str, Path | bytes], stored: CheckpointSettings) -> dict[str, Path | bytes]:
    """The files of a self-contained repository.

    Args:
        encoder: the files of the plain one, by name.
        stored: the settings of the checkpoint.
    """
    source = encoder["config.json"]
    config = json.loads(source if isinstance(source, bytes) else source.read_bytes())
    config["custom_pipelines"] = {
        "narrative-salience": {"impl": f"{_name(_DOOR)}.SaliencePipeline", "pt": ["AutoModel"], "type": "text"}
    }
    config[SETTINGS] = stored._asdict()
    code = {f"{_name(module)}.py": self_contained_code(module).encode() for module in sorted(closure())}
    return encoder | {"config.json": (json.dumps(config, indent=2) + "\n").encode()} | code


def closure(module: str = _DOOR) -> set[str]:
    """The modules of this package that a module needs, itself included."""
    needed, todo = set(), {module}
    while todo:
        one = todo.pop()
        needed.add(one)
        todo |= {found for _, found in _own_imports(ast.parse(_source(one)))} - needed
    return needed


def self_contained_code(module: str) -> str:
    """A module as a file of its own beside the others: imports of this package become relative, blocks for type
    checkers are left out, and libraries that are needed for some things only may be missing."""
    source = _source(module)
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    for statement, found in _own_imports(tree):
        line = lines[statement.lineno - 1]
        lines[statement.lineno - 1] = line.replace(f"from narrative_twins.{found} ", f"from .{_name(found)} ")
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            lines[node.lineno - 1 : node.end_lineno] = ["\n"] * ((node.end_lineno or node.lineno) - node.lineno + 1)
            continue
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Import, ast.ImportFrom)) and _library(inner) in _OPTIONAL:
                _allow_missing(lines, inner)
    return f"# From the package narrative_twins (Apache-2.0), its module `{module}`.\n{''.join(lines)}"


def _name(module: str) -> str:
    return f"narrative_twins_{module.replace('.', '_')}"


def _source(module: str) -> str:
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")


def _own_imports(tree: ast.Module) -> Iterator[tuple[ast.ImportFrom, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("narrative_twins."):
            yield node, (node.module or "").removeprefix("narrative_twins.")


def _library(node: ast.Import | ast.ImportFrom) -> str:
    name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
    return (name or "").partition(".")[0]


def _allow_missing(lines: list[str], node: ast.stmt) -> None:
    """transformers wants all that is imported outside of `try` to be installed."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    indent = " " * node.col_offset
    lines[first] = f"{indent}try:\n    {lines[first]}"
    lines[last] += f"{indent}except ModuleNotFoundError:\n{indent}    raise\n"

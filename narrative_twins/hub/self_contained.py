"""The self-contained form of an encoder's repository: the checkpoint and the code of the pipeline,
for use without this package.

Each module of the package that the pipeline needs is a file. Since code in a repository requires
`trust_remote_code` of all users, even of those who have the package, this form is on its own
branch, see `hub.push_encoder`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from narrative_twins.encoder.loading import SETTINGS, CheckpointSettings
from narrative_twins.hub.cards import PLACEHOLDER_ID, template

PACKAGE = Path(__file__).parent.parent
_MAIN = "pipeline"
_OPTIONAL = ("pandas", "matplotlib", "peft", "accelerate")
"""Libraries that may be missing, since only some functions need them. `syntok` is not among them,
so transformers reports it before loading the code: texts are split by it."""


def self_contained_files(
    encoder: dict[str, Path | bytes], stored: CheckpointSettings, repo_id: str
) -> dict[str, Path | bytes]:
    """The files of a self-contained repository, from those of the plain one, the settings of its
    checkpoint and its Hub id. The card begins with how to load this form."""
    config = json.loads(_text(encoder["config.json"]))
    config["custom_pipelines"] = {
        "narrative-salience": {
            "impl": f"{_file_stem(_MAIN)}.SaliencePipeline",
            "pt": ["AutoModel"],
            "type": "text",
        }
    }
    config[SETTINGS] = stored._asdict()
    code = {
        f"{_file_stem(module)}.py": self_contained_code(module).encode()
        for module in sorted(required_modules())
    }
    card = _text(encoder["README.md"])
    metadata = re.match(r"---\n.*?\n---\n+", card, re.DOTALL)
    start = metadata.end() if metadata else 0
    note = template("with_code_card.md").replace(PLACEHOLDER_ID, repo_id)
    own = {
        "config.json": (json.dumps(config, indent=2) + "\n").encode(),
        "README.md": f"{card[:start]}{note}\n{card[start:]}".encode(),
    }
    return encoder | own | code


def _text(source: Path | bytes) -> str:
    return (source if isinstance(source, bytes) else source.read_bytes()).decode()


def required_modules(module: str = _MAIN) -> set[str]:
    """A module and all modules of this package that it imports, directly or indirectly."""
    needed, remaining = set(), {module}
    while remaining:
        current = remaining.pop()
        needed.add(current)
        remaining |= {found for _, found in _own_imports(ast.parse(_source(current)))} - needed
    return needed


def self_contained_code(module: str) -> str:
    """The source of a module for the repository: with relative imports of this package, without
    blocks for type checkers, and with optional libraries allowed to be missing."""
    source = _source(module)
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    for statement, found in _own_imports(tree):
        line = lines[statement.lineno - 1]
        lines[statement.lineno - 1] = line.replace(
            f"from narrative_twins.{found} ", f"from .{_file_stem(found)} "
        )
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            lines[node.lineno - 1 : node.end_lineno] = ["\n"] * (
                (node.end_lineno or node.lineno) - node.lineno + 1
            )
            continue
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Import, ast.ImportFrom)) and _library(inner) in _OPTIONAL:
                _allow_missing(lines, inner)
    return (
        f"# From the package narrative_twins (Apache-2.0), its module `{module}`.\n{''.join(lines)}"
    )


def _file_stem(module: str) -> str:
    return f"narrative_twins_{module.replace('.', '_')}"


def _source(module: str) -> str:
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")


def _own_imports(tree: ast.Module) -> Iterator[tuple[ast.ImportFrom, str]]:
    """The imports of this package, and the module of each; not of `hub`, by which an installed
    package pushes."""
    for node in ast.walk(tree):
        package, _, module = str(getattr(node, "module", "")).partition(".")
        if isinstance(node, ast.ImportFrom) and package == "narrative_twins":
            if not module.startswith("hub."):
                yield node, module


def _library(node: ast.Import | ast.ImportFrom) -> str:
    name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
    return (name or "").partition(".")[0]


def _allow_missing(lines: list[str], node: ast.stmt) -> None:
    """Wrap an import in `try`: transformers requires all other imports of remote code to be
    installed."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    indent = " " * node.col_offset
    lines[first] = f"{indent}try:\n    {lines[first]}"
    lines[last] += f"{indent}except ModuleNotFoundError:\n{indent}    raise\n"

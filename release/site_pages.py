"""A hook of MkDocs (`make docs`): pages of the documentation site that are not files of docs/.

README.md is the home page, and the other guides at the top of the repository are pages as well. The
API reference has a page for each public name, written from its docstring by mkdocstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "narrative_twins"
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""Guides at the top of the repository, and their pages."""
SUBPACKAGES = (
    "baselines",
    "books",
    "corpora",
    "data",
    "encoder",
    "evaluation",
    "hub",
    "prompting",
    "salience",
    "show",
    "training",
)
"""Subpackages that users import names from."""

_LINK = re.compile(r"\]\((?:\.\./|docs/)?([\w./-]+\.(?:md|png))(#[\w-]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    sections = {"narrative_twins": public_names(PACKAGE)}
    for name in SUBPACKAGES:
        sections[f"narrative_twins.{name}"] = public_names(PACKAGE / name)
    lines = ["# API reference", ""]
    for module, names in sections.items():
        lines += [f"## {module}", ""]
        for name in names:
            page = f"{module}.{name}.md"
            lines.append(f"- [`{name}`]({page})")
            content = f"---\ntitle: {name}\n---\n\n::: {module}.{name}\n"
            files.append(File.generated(config, f"api/{page}", content=content))
        lines.append("")
    files.append(File.generated(config, "api/index.md", content="\n".join(lines)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links between the guides to their pages."""

    def target(link: re.Match[str]) -> str:
        return f"]({PAGES.get(link[1], link[1])}{link[2] or ''})"

    return markdown if page.file.src_uri.startswith("api/") else _LINK.sub(target, markdown)


def public_names(package: Path) -> list[str]:
    """The public names of a package in alphabetical order: what its `__init__.pyi` imports from its
    modules, or its `__init__.py` if names are not imported lazily."""
    stub = package / "__init__.pyi"
    source = stub if stub.exists() else package / "__init__.py"
    names = set(_imported(ast.parse(source.read_text(encoding="utf-8"))))
    return sorted(names, key=str.lower)


def _imported(tree: ast.Module) -> Iterator[str]:
    """The names that are imported from modules of the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.level or node.module.startswith("narrative_twins."):
                names = (alias.asname or alias.name for alias in node.names)
                yield from (name for name in names if not name.startswith("_"))

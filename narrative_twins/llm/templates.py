"""Prompt templates in text files, which a user can replace.

A template has placeholders, for example `{{story}}`. All are filled in a single pass, so braces,
quotes and template syntax in a story are not interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

PLACEHOLDERS = ("story", "count")
"""Placeholders of all templates: the story as JSON or numbered lines, and the number of
sentences."""

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class Template:
    """A prompt with placeholders.

    Attributes:
        name: the file name without suffix; for templates of the user, the path.
        text: the content of the file.
        placeholders: the placeholders that it may have.

    Raises:
        ValueError: a placeholder is unknown, or `{{story}}` is missing.
    """

    name: str
    text: str
    placeholders: Sequence[str] = PLACEHOLDERS

    def __post_init__(self) -> None:
        unknown = [
            name for name in _PLACEHOLDER.findall(self.text) if name not in self.placeholders
        ]
        known = ", ".join(f"{{{{{name}}}}}" for name in self.placeholders)
        if unknown:
            raise ValueError(
                f"the prompt {self.name} has an unknown placeholder {{{{{unknown[0]}}}}}; use"
                f" {known}"
            )
        if not self.has("story"):
            raise ValueError(f"the prompt {self.name} has no {{{{story}}}} placeholder; add it")

    def has(self, placeholder: str) -> bool:
        """Whether the prompt has this placeholder."""
        return placeholder in _PLACEHOLDER.findall(self.text)

    def fill(self, values: Mapping[str, object]) -> str:
        """The prompt, with every placeholder replaced by its value."""
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), self.text).strip()


def read_templates(
    package: str,
    names: Sequence[str],
    folder: str | Path | None = None,
    placeholders: Sequence[str] = PLACEHOLDERS,
) -> dict[str, Template]:
    """Read templates, by name.

    Args:
        package: the package with the templates, as files `prompts/NAME.txt`.
        names: the names of the templates.
        folder: a folder with files `NAME.txt` that replace templates of the package.
        placeholders: the placeholders that they may have.

    Raises:
        OSError, ValueError: the folder does not exist, or a file in it is not a template of the
            package or not valid.
    """
    prompts = files(package).joinpath("prompts")
    known = sorted(file.name for file in prompts.iterdir())
    replaced = {} if folder is None else _user_templates(Path(folder), known, placeholders)
    return {
        name: (
            replaced[name]
            if name in replaced
            else Template(name, prompts.joinpath(f"{name}.txt").read_text("utf-8"), placeholders)
        )
        for name in names
    }


def _user_templates(
    folder: Path, known: Sequence[str], placeholders: Sequence[str]
) -> dict[str, Template]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder} is not a folder; name a folder with prompts, for example {known[0]}"
        )
    found = {path.stem: path for path in sorted(folder.glob("*.txt"))}
    unknown = [str(path) for path in found.values() if path.name not in known]
    if unknown or not found:
        problem = f"{unknown[0]} replaces no prompt" if unknown else f"{folder} contains no prompt"
        raise ValueError(f"{problem}; the file name must be one of {', '.join(known)}")
    try:
        return {
            name: Template(str(path), path.read_text(encoding="utf-8-sig"), placeholders)
            for name, path in found.items()
        }
    except UnicodeDecodeError as error:
        raise ValueError(
            f"a prompt in {folder} is not UTF-8 ({error}); convert it to UTF-8"
        ) from None

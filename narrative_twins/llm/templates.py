"""What a language model is asked: templates in text files, which a user can replace.

A template has placeholders such as `{{story}}`. They are filled in one go, and what is filled in is not looked at
again: braces, quotes and template syntax in a story stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

PLACEHOLDERS = ("story", "count")
"""What a template can ask for: the story as JSON or numbered lines, and how many sentences."""

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class Template:
    """A prompt with placeholders.

    Attributes:
        name: the name of its file, without the suffix.
        text: what is in it.

    Raises:
        ValueError: it has a placeholder that there is not, or none for the story.
    """

    name: str
    text: str

    def __post_init__(self) -> None:
        names = _PLACEHOLDER.findall(self.text)
        unknown = [name for name in names if name not in PLACEHOLDERS]
        known = ", ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
        if unknown:
            raise ValueError(f"the prompt {self.name} has a placeholder {{{{{unknown[0]}}}}}; there are {known}")
        if "story" not in names:
            raise ValueError(f"the prompt {self.name} has no {{{{story}}}}; say where the story goes")

    def fill(self, values: Mapping[str, object]) -> str:
        """The prompt, every placeholder replaced by its value."""
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), self.text).strip()


def read_templates(package: str, names: Sequence[str], folder: str | Path | None = None) -> dict[str, Template]:
    """Templates by name: those of a package, or those of a folder, where it has them.

    Args:
        package: the package whose folder `prompts` has a file `NAME.txt` for each template.
        names: the templates that are needed.
        folder: holds `NAME.txt` for the templates that are to be replaced.

    Raises:
        OSError, ValueError: there is no such folder, or a file in it is no template.
    """
    prompts = files(package).joinpath("prompts")
    known = sorted(file.name for file in prompts.iterdir())
    own = {} if folder is None else _replaced(Path(folder), known)
    return {
        name: own[name] if name in own else Template(name, prompts.joinpath(f"{name}.txt").read_text("utf-8"))
        for name in names
    }


def _replaced(folder: Path, known: Sequence[str]) -> dict[str, Template]:
    """The templates of a folder, whose files have known names."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder here; name one with prompts such as {known[0]}")
    found = {path.stem: path for path in sorted(folder.glob("*.txt"))}
    unknown = [str(path) for path in found.values() if path.name not in known]
    if unknown or not found:
        what = f"{unknown[0]} is the file of no prompt" if unknown else f"{folder} holds no prompt"
        raise ValueError(f"{what}; there are {', '.join(known)}")
    try:
        return {name: Template(str(path), path.read_text(encoding="utf-8-sig")) for name, path in found.items()}
    except UnicodeDecodeError as error:
        raise ValueError(f"a prompt in {folder} is not UTF-8 ({error}); convert it") from None

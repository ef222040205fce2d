"""The files of a table or figure, written whole: Markdown, LaTeX, JSON and SVG."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from narrative_twins.evaluation.tables import Table
from narrative_twins.plots.style import save_figure
from narrative_twins.writing import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Output:
    """A table or figure.

    Attributes:
        name: of the files.
        caption: what it shows.
        values: the same as JSON data.
        table: as Markdown and LaTeX, if there is one.
        figures: by the name of the file, without its suffix.
        missing: the commands that fill the empty cells.
        hints: what else would fill empty cells.
    """

    name: str
    caption: str
    values: Any
    table: Table | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    missing: Sequence[str] = ()
    hints: Sequence[str] = ()

    @property
    def markdown(self) -> str:
        """The table and the picture, and what fills the empty cells."""
        parts = [self.caption + "\n" if self.table is None else self.table.to_markdown()]
        parts += [f"![{name}]({name}.svg)\n" for name in self.figures]
        if self.missing:
            empty = "Missing lines are" if self.table is None else "Empty cells are"
            parts.append(f"{empty} filled by\n\n```\n" + "\n".join(self.missing) + "\n```\n")
        parts += [f"{hint}\n" for hint in self.hints]
        return "\n".join(parts)

    @property
    def latex(self) -> str:
        """The table, with what fills the empty cells as comments."""
        if self.table is None:
            return ""
        filled_by = [*self.missing, *self.hints]
        return self.table.to_latex() + "".join(f"% to fill: {line}\n" for line in filled_by)

    def write(self, folder: Path) -> None:
        """Write the files into a folder."""
        values = {
            "name": self.name,
            "caption": self.caption,
            **self.values,
            "missing": list(self.missing),
            "hints": list(self.hints),
        }
        write(folder / f"{self.name}.json", json.dumps(values, indent=1) + "\n")
        write(folder / f"{self.name}.md", self.markdown)
        if self.table is not None:
            write(folder / f"{self.name}.tex", self.latex)
        for name, figure in self.figures.items():
            save_figure(figure, folder / f"{name}.svg")


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    with atomic_write(path) as file:
        file.write(text)


def write_index(outputs: Sequence[Output], folder: Path) -> None:
    """Write `index.md` and `index.tex` with everything, and `missing.txt` with the commands that
    fill the empty cells."""
    write(
        folder / "index.md",
        "\n".join(f"## {output.name}\n\n{output.markdown}" for output in outputs),
    )
    write(
        folder / "index.tex",
        "\n".join(output.latex for output in outputs if output.table is not None),
    )
    missing = dict.fromkeys(line for output in outputs for line in output.missing)
    write(folder / "missing.txt", "".join(f"{line}\n" for line in missing))


def sample_sd(values: ArrayLike) -> NDArray[np.float64]:
    """Return the standard deviation over n - 1 along the first axis; 0 for a single value."""
    array = np.asarray(values, np.float64)
    return np.asarray(array.std(axis=0, ddof=min(1, len(array) - 1)))

"""Tables of figures, as Markdown and as LaTeX for the package booktabs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_LATEX = {char: f"\\{char}" for char in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "≥": r"$\geq$",
    "<": r"$<$",
    ">": r"$>$",
}


@dataclass(frozen=True)
class Cell:
    """A cell: its text, and whether it is bold."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A table of numbers.

    Attributes:
        caption: what the table shows.
        columns: the headings of the columns; the first column has the names of the rows.
        rows: cells, one for each column; a row of a single cell is a heading of the rows below it.
        notes: sentences below the table.
        groups: headings above the headings, each with the number of columns that it spans, together
            all columns; empty for none. Markdown puts them in front of the headings.
        names: the type of the first column in LaTeX, for example `p{8cm}` for long texts.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    groups: Sequence[tuple[str, int]] = ()
    names: str = "l"

    def to_markdown(self) -> str:
        """Return the table in Markdown, with aligned columns, its caption above and notes below."""
        over = [group for group, width in self.groups for _ in range(width)]
        columns = [
            f"{group} {name}".strip()
            for group, name in zip(over or [""] * len(self.columns), self.columns, strict=True)
        ]
        rows = [columns]
        for row in self.rows:
            if len(row) == 1:
                rows.append([f"*{row[0].text}*", *[""] * (len(columns) - 1)])
            else:
                rows.append([_markdown_cell(cell) for cell in row])
        widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        lines = []
        for texts in (columns, rule, *rows[1:]):
            cells = [texts[0].ljust(widths[0]), *map(str.rjust, texts[1:], widths[1:])]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n\n".join([self.caption, "\n".join(lines), *self.notes]) + "\n"

    def to_latex(self) -> str:
        """Return the table as a LaTeX environment `table`, for the package booktabs."""
        width = len(self.columns)
        lines: list[str] = []
        for row in self.rows:
            if len(row) == 1:
                heading = rf"\textit{{{latex(row[0].text)}}}"
                lines += [r"\midrule"] if lines else []
                lines.append(rf"\multicolumn{{{width}}}{{l}}{{{heading}}} \\")
            else:
                lines.append(" & ".join(map(_latex_cell, row)) + r" \\")
        cells: list[str] = []
        rules: list[str] = []
        start = 1
        for group, size in self.groups:
            cells += [rf"\multicolumn{{{size}}}{{c}}{{{latex(group)}}}"] if group else [""] * size
            rules += [rf"\cmidrule(lr){{{start}-{start + size - 1}}}"] * bool(group)
            start += size
        above = [" & ".join(cells) + r" \\", " ".join(rules)] if cells else []
        head = [
            "\\begin{table}\n\\centering",
            rf"\caption{{{latex(' '.join([self.caption, *self.notes]))}}}",
            rf"\begin{{tabular}}{{{self.names}{'r' * (width - 1)}}}",
            r"\toprule",
        ]
        columns = " & ".join(map(latex, self.columns)) + r" \\"
        end = "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
        return "\n".join([*head, *above, columns, r"\midrule", *lines, end])


def _markdown_cell(cell: Cell) -> str:
    """Return a cell as Markdown."""
    # A vertical bar would end the cell, a line break the row.
    text = " ".join(cell.text.split()).replace("|", "\\|")
    return f"**{text}**" if cell.bold and text else text


def _latex_cell(cell: Cell) -> str:
    """Return a cell as LaTeX."""
    text = latex(cell.text)
    return rf"\textbf{{{text}}}" if cell.bold and text else text


def latex(text: str) -> str:
    """Return a text with escapes for the characters that have a meaning in LaTeX, such as `%`."""
    return "".join(_LATEX.get(char, char) for char in text)


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number with `digits` decimals; empty if it is None or nan."""
    return "" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def figure_and_spread(value: float | None, sd: float | None) -> str:
    """Return a mean and its standard deviation, `0.712 ± 0.010`; the mean alone without `sd`."""
    text, spread = figure(value), figure(sd)
    return f"{text} ± {spread}" if text and spread else text


def interval(limits: tuple[float, float]) -> str:
    """Return an interval with two decimals, `0.41 to 0.55`; empty if a limit is nan."""
    low, high = (figure(limit, 2) for limit in limits)
    return f"{low} to {high}" if low and high else ""


def p_value(value: float | None) -> str:
    """Return a p-value with three decimals, or `< 0.001`; empty if it is None or nan."""
    if value is None or math.isnan(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"

"""Tables of figures: any text stays in its cell, in Markdown and in LaTeX."""

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.evaluation.tables import (
    Cell,
    Table,
    figure,
    figure_and_spread,
    interval,
    latex,
    p_value,
)

cells = st.builds(Cell, st.text(max_size=12), st.booleans())


@given(st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=4))
def test_any_text_stays_in_its_cell(rows):
    table = Table("A table.", ["", "Spearman", "p"], rows, ["A note."])
    lines = [line for line in table.to_markdown().split("\n") if line.startswith("|")]
    assert len(lines) == len(rows) + 2
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 4 for line in lines)
    body = table.to_latex().partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    assert len(re.findall(r"(?<!\\)&", body)) == 2 * len(rows)


@given(st.text())
def test_latex_has_no_character_with_a_meaning(text):
    plain = re.sub(r"\\text\w+\{\}|\$\\\w+\$|\$[<>]\$|\\[&%$#_{}]", "", latex(text))
    assert not set(plain) & set("&%$#_{}\\~^")


def test_figures_as_text():
    found = [figure(number) for number in (0.12345, -0.5, None, math.nan)]
    assert found == ["0.123", "-0.500", "", ""]
    assert figure_and_spread(0.5, 0.01) == "0.500 ± 0.010"
    assert figure_and_spread(0.5, None) == "0.500"
    assert [interval((0.1, 0.25)), interval((math.nan, 1))] == ["0.10 to 0.25", ""]
    found = [p_value(p) for p in (None, math.nan, 0.0004, 0.05, 1.0)]
    assert found == ["", "", "< 0.001", "0.050", "1.000"]


def test_bold_cells():
    table = Table("T.", ["", "x"], [[Cell("a"), Cell("0.5", True)], [Cell("b"), Cell("", True)]])
    assert "**0.5**" in table.to_markdown() and "****" not in table.to_markdown()
    assert r"\textbf{0.5}" in table.to_latex() and r"\textbf{}" not in table.to_latex()

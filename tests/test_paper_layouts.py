"""Tables in the layouts of papers: the cells are those of the comparison, and what it does not have
is empty."""

from __future__ import annotations

import numpy as np
import pandas as pd
from layouts import Line, long_table, wide_table

from narrative_twins.evaluation.comparison import Comparison
from narrative_twins.evaluation.labelled import DataSummary
from narrative_twins.evaluation.measure import long_table as values_of
from narrative_twins.evaluation.tables import Table


def votes(scorer: str, operation: str, *levels: float) -> list[pd.DataFrame]:
    """Runs whose values are near a level: 12 stories, in which AUC is half of Spearman."""
    noise = np.linspace(-0.05, 0.05, 12)[:, None]
    return [
        values_of(
            "stories",
            scorer,
            operation,
            f"run {number}",
            {"spearman": level + noise, "auc": (level + noise) / 2},
        )
        for number, level in enumerate(levels)
    ]


def points(scorer: str, operation: str, means: list[float]) -> pd.DataFrame:
    return values_of("films", scorer, operation, "run", {"auc": np.array([means, means])})


COMPARISON = Comparison(
    pd.concat(
        [
            *votes("mlm", "deletion", 0.2),
            *votes("mlm", "shifting", 0.9),
            *votes("twins", "deletion", 0.5, 0.7),
            *votes("twins", "shifting", 0.3, 0.3),
            *votes("trail", "", 0.1),
            points("ettin", "deletion", [0.5, 0.6, 1.0]),
            points("ettin", "shifting", [0.1, 0.2, 0.3]),
        ]
    ),
    [DataSummary("stories", 12, 60, entropy=1.0), DataSummary("films", 2, 20, 3)],
)


def texts(table: Table) -> list[list[str]]:
    return [[f"*{cell.text}*" if cell.bold else cell.text for cell in row] for row in table.rows]


def test_wide_table():
    scorers = {"masked": "mlm", "twins": "twins", "absent": "gone"}
    table = wide_table(COMPARISON, "stories", scorers, ["deletion", "shifting"], "A caption.")
    assert texts(table) == [
        ["masked", "0.200", "0.100", "*0.900*", "*0.450*"],
        ["twins", "0.600 ± 0.100", "0.300 ± 0.050", "0.300 ± 0.000", "0.150 ± 0.000"],
        ["absent", "", "", "", ""],
    ], "only the best of the table is bold; deviations are over n"
    latex = table.to_latex().splitlines()
    assert r" & \multicolumn{2}{c}{deletion} & \multicolumn{2}{c}{shifting} \\" in latex
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}" in latex
    assert r"absent &  &  &  &  \\" in latex


def test_long_table_of_turning_points():
    sections = {
        name: [Line("full", "ettin", name), Line("gone", "gone", name)]
        for name in ("deletion", "shifting")
    }
    table = long_table(COMPARISON, "films", sections, "")
    assert list(table.columns) == ["", "TP1", "TP2", "TP3", "mean AUC"]
    assert texts(table) == [
        ["deletion"],
        ["full", "0.500", "0.600", "1.000", "*0.700*"],
        ["gone", "", "", "", ""],
        ["shifting"],
        ["full", "0.100", "0.200", "0.300", "0.200"],
        ["gone", "", "", "", ""],
    ], "only the best of the table is bold"


def test_long_table_of_rows_with_and_without_operation():
    lines = [
        Line("increasing", "trail"),
        Line("ours", "twins", "deletion"),
        Line("no such", "twins", "disruption"),
    ]
    table = long_table(COMPARISON, "stories", {"": lines}, "")
    assert texts(table) == [
        ["increasing", "0.100", "0.050"],
        ["ours", "*0.600 ± 0.100*", "*0.300 ± 0.050*"],
        ["no such", "", ""],
    ]
    assert "over n" in table.notes[0]

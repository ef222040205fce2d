"""Lines with their spread."""

from __future__ import annotations

import math

import pytest

from narrative_twins.plots.lines import lines_figure
from narrative_twins.plots.style import render


def test_each_panel_has_its_lines_with_their_points():
    panels = {
        "loss": {"twins": [(1, 0.5, 0.0), (2, 0.25, 0.0)]},
        "AUC": {
            "masked": [(1, 0.5, 0.1), (2, 0.6, 0.2)],
            "twins": [(1, math.nan, 0.0), (2, 0.9, 0.0)],
        },
    }
    figure = lines_figure(panels, title="Curves of $x", label="step")
    loss, area = figure.axes
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss", "AUC"]
    assert [line.get_label() for line in area.lines] == ["masked", "twins"]
    assert loss.lines[0].get_xydata().tolist() == [[1, 0.5], [2, 0.25]]
    assert loss.lines[0].get_color() == area.lines[1].get_color(), (
        "a name has the same style in all panels"
    )
    legend = [text.get_text() for text in loss.get_legend().get_texts()]
    assert legend == ["twins", "masked"] and area.get_legend() is None
    (band,) = area.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.4, 0.8))
    assert b"Curves of $x" in render(figure, "svg")


def test_ticks_are_named():
    figure = lines_figure(
        {"AUC": {"a": [(0, 0.1, 0.0), (1, 0.2, 0.0)]}}, title="", label="", ticks=["tiny", "large"]
    )
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["tiny", "large"]

"""Figures: complete curves and heat maps, reproducible bytes, any text, distinguishable colours."""

from __future__ import annotations

import itertools
import sys
import time
import warnings

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from narrative_twins.plots import style
from narrative_twins.plots.figures import resample, space_labels
from narrative_twins.plots.style import PALETTE, one_line, render, shortened
from narrative_twins.show.heat_map import plot_stories
from narrative_twins.training.reporting import plot_curves

from support.results import any_text, result_of, texts_of
from support.strategies import window_sizes


def numbered(n):
    return [f"Sentence {i + 1} of the story." for i in range(n)]


def lines_of(axes, label):
    return [np.asarray(line.get_data(), float) for line in axes.lines if line.get_label() == label]


@given(st.data())
@settings(max_examples=10)
def test_curves_have_all_scores(data):
    n = data.draw(st.integers(1, 40))
    sizes, top = data.draw(window_sizes(n)), data.draw(st.integers(0, 12))
    result = result_of(numbered(n), sizes)
    figure = result.plot(top=top)
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(result.scores)
    for axes, (name, scores) in zip(figure.axes, result.scores.items(), strict=True):
        ((numbers, values),) = lines_of(axes, "scores")
        is_score = ~np.isnan(numbers)
        assert numbers[is_score].tolist() == list(range(1, n + 1))
        assert values[is_score].tolist() == scores
        ends = [int(numbers[gap - 1]) for gap in np.flatnonzero(~is_score)]
        assert ends == [hi for _, hi in result.windows[:-1]], (
            "lines are interrupted at window borders"
        )
        assert [x[0] for x, _ in lines_of(axes, "border")] == [hi + 0.5 for hi in ends]
        shown = {(int(x[0]) - 1, y[0]) for x, y in lines_of(axes, "labelled")}
        assert shown == {
            (sentence.index, sentence.score) for sentence in result.top(min(top, 10), name)
        }
        assert {text.get_text() for text in axes.texts} == {str(i + 1) for i, _ in shown}


@pytest.mark.parametrize(
    ("n", "windows"), [(1, 1), (5, 1), (34, 5), (3000, 20), (3000, 430), (300, 300)]
)
@pytest.mark.parametrize("width", [3.3, 7])
def test_nothing_overlaps_or_is_cut_off(n, windows, width):
    """The drawn texts of a figure are within it, and apart from each other."""
    result = result_of(numbered(n), windows, cut_tokens=3)
    figure = result.plot(top=10, width=width)
    figure.set_dpi(200)
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == width and figure.get_size_inches()[1] < 12
    texts = [
        text
        for text in figure.findobj(matplotlib.text.Text)
        if text.get_visible() and text.get_text()
    ]
    boxes = [(text.get_text(), matplotlib.text.Text.get_window_extent(text)) for text in texts]
    for text, box in boxes:
        assert box.x0 > 0 and box.y0 > 0 and box.x1 < figure.bbox.x1 and box.y1 < figure.bbox.y1, (
            text
        )
    for (text, a), (other, b) in itertools.combinations(boxes, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 0 or down <= 1, (text, other)
    hidden = any("too narrow to be marked" in text for text, _ in boxes)
    assert hidden == (windows > 80 or (windows > 30 and width < 4))
    assert hidden != bool(lines_of(figure.axes[0], "border")) or windows == 1


@given(st.lists(any_text, min_size=1, max_size=4), any_text, any_text)
@settings(max_examples=8)
def test_any_text_is_shown_as_text(texts, name, operation):
    """In full or shortened; it is not parsed as mathematics, gives no warning, and an SVG stays
    valid XML."""
    result = result_of(texts, name=name, operations=(operation,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of scripts that releases before 3.11 can't shape.
        warnings.filterwarnings("ignore", "Matplotlib currently does not support")
        figure = result.plot(top=4)
        svg = render(figure, "svg")
        assert render(figure, "png").startswith(b"\x89PNG")
        heat = texts_of(render(plot_stories([result, result]), "svg"))

    def count(lines, text):
        return sum(line.startswith(one_line(text)[:3].strip()) for line in lines)

    assert all(count(texts_of(svg), text) for text in (*texts, operation, result.name))
    assert count(heat, result.name) >= 2


def test_of_a_line_of_a_megabyte_only_the_ends_are_read(monkeypatch):
    read, lengths = style.one_line, []
    monkeypatch.setattr(style, "one_line", lambda text: lengths.append(len(text)) or read(text))
    long = ["w" * 1_000_000, "word " * 200_000, " " * 1_000_000 + "x", "東" * 1_000_000]
    result = result_of(long, name="n" * 1_000_000)
    for figure in (result.plot(), plot_stories([result] * 3)):
        assert len(render(figure, "svg")) < 100_000
        assert max(figure.get_size_inches()) < 9
    assert lengths and max(lengths) < 10_000


def test_matplotlib_settings_of_the_process_are_kept(tmp_path):
    result = result_of(numbered(5))
    plain = render(result.plot(), "svg")
    before = matplotlib.rcParams.copy()
    with matplotlib.rc_context(
        {"text.usetex": True, "axes.facecolor": "black", "svg.hashsalt": "other"}
    ):
        assert render(result.plot(), "svg") == plain
    assert matplotlib.rcParams.copy() == before
    with matplotlib.rc_context({"font.family": "DejaVu Serif"}):
        assert b"DejaVu Serif" in render(result.plot(), "svg"), "fonts are those of the user"


@pytest.mark.parametrize("form", ["png", "svg"])
def test_figures_have_the_same_bytes_each_time(tmp_path, form):
    for plot in (
        lambda path: result_of(numbered(34), 5).plot(path),
        lambda path: plot_stories([result_of("ab")], path),
    ):
        first, second = tmp_path / f"one.{form}", tmp_path / f"two.{form.upper()}"
        plot(first)
        time.sleep(0.01)
        plot(str(second))
        assert first.read_bytes() == second.read_bytes()
        assert b"date" not in first.read_bytes() and sorted(tmp_path.iterdir()) == sorted(
            [first, second]
        )
    if form == "png":
        assert imread(first).shape[1] == 1400


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=30), st.integers(1, 50))
def test_resample(values, size):
    """The same as the means of `size` copies of each value."""
    copies = np.repeat(values, size).reshape(size, len(values))
    assert np.allclose(resample(values, size), copies.mean(axis=1), atol=1e-9)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10), st.floats(0, 30))
def test_space_labels(wanted, gap):
    wanted = sorted(wanted)
    positions = space_labels(wanted, gap, 0, 100)
    gap = min(gap, 100 / max(1, len(wanted) - 1))
    assert all(-1e-9 <= position <= 100 + 1e-9 for position in positions)
    assert all(b - a >= gap - 1e-9 for a, b in itertools.pairwise(positions))
    if all(b - a >= gap for a, b in itertools.pairwise(wanted)):
        assert positions == pytest.approx(wanted)


def test_heat_maps_have_one_row_per_story():
    results = [result_of(numbered(n), name=f"story of {n}", seed=n) for n in (1, 2, 7, 500)]
    figure = plot_stories(iter(results), operation="deletion")
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [
        result.name for result in results
    ]
    cells = axes.images[0].get_array()
    assert cells.shape == (4, 240)
    assert set(cells[0]) == {0}, "the only score is not shaded"
    low_first = np.argmin(results[1].scores["deletion"]) == 0
    assert (
        cells[1].tolist() == [0.0] * 120 + [1.0] * 120 if low_first else [1.0] * 120 + [0.0] * 120
    )
    assert int(np.argmax(cells[2])) * 7 // 240 == np.argmax(results[2].scores["deletion"])
    assert cells[3].max() < 1, "a column of two sentences is their mean"
    assert axes.images[0].get_cmap().name == "cividis"


def test_heat_maps_of_many_stories_are_lazy_and_not_too_high():
    read = []
    figure = plot_stories(
        read.append(i) or result_of(["A.", "B."], name=f"n{i}") for i in range(1000)
    )
    assert len(read) == 1000 and figure.get_size_inches()[1] < 8
    named = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert 20 < len(named) < 60 and named[0] == "n0"
    step = int(named[1][1:])
    assert f"({step - 1} of {step} names are not shown)" in figure.texts[0].get_text()


def test_scores_that_are_not_finite_are_left_out():
    result = result_of(numbered(3))
    result.scores["deletion"][:] = [float("nan"), float("inf"), 1.0]
    result.scores["summarization"][:] = [float("nan")] * 3
    assert len(lines_of(result.plot().axes[0], "labelled")) == 1


def test_errors(tmp_path, monkeypatch):
    result = result_of(numbered(3))
    for call, problem in (
        (
            lambda: result.plot(operations="erasure"),
            "'erasure' was not scored; choose from deletion, summarization",
        ),
        (lambda: result.plot(operations=[]), "no operation to plot"),
        (lambda: result.plot(top=-1), "can't be negative"),
        (lambda: result.plot(width=1), "must be from 2.5 to 20.0 inches"),
        (lambda: result.plot(tmp_path / "a.pdf"), "use a name that ends in .png or .svg"),
        (lambda: plot_stories([]), "no story to plot"),
        (lambda: plot_stories([result], operation="erasure"), "'erasure' was not scored"),
    ):
        with pytest.raises(ValueError, match=problem):
            call()
    with pytest.raises(FileNotFoundError, match="create it first"):
        result.plot(tmp_path / "nowhere" / "a.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for call in (
        result.plot,
        lambda: plot_stories([]),
        lambda: plot_curves({}, tmp_path / "a.png"),
    ):
        with pytest.raises(ModuleNotFoundError, match=r"pip install narrative_twins\[plot\]"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_training_curves_have_the_same_style(tmp_path):
    path = tmp_path / "curves.svg"
    plot_curves(
        {"loss": [(1, 2.0)], "eval_loss": [(1, 2.5)], "eval_$x$_spearman": [(1, 0.5)]}, path
    )
    assert {"loss", "eval_loss", "$x$_spearman", "step"} <= set(texts_of(path.read_bytes()))
    assert PALETTE[0].lower().encode() in path.read_bytes()


@given(any_text, st.integers(1, 20), st.booleans())
def test_shortened(text, length, both_ends):
    line, short = one_line(text), shortened(text, length, both_ends)
    assert len(short) <= length
    if len(line) <= length:
        assert short == line
    else:
        start, end = short.split("…") if line.count("…") == 0 else short.rsplit("…", 1)
        assert line.startswith(start) and line.endswith(end if both_ends else "")

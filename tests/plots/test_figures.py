"""Figures: complete curves, reproducible bytes, any text, nothing that overlaps."""

import itertools
import warnings
from importlib.metadata import PackageNotFoundError
from unittest.mock import Mock

import matplotlib
import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import font_manager
from matplotlib.image import imread
from matplotlib.text import Text

from narrative_twins import extras
from narrative_twins.plots import fonts
from narrative_twins.plots.figures import space_labels
from narrative_twins.plots.style import PALETTE, render
from narrative_twins.text import one_line
from narrative_twins.training.reports import plot_curves

from support.results import NASTY, result_of, texts_of


def numbered(n):
    return [f"Sentence {i + 1} of the story." for i in range(n)]


def lines_of(axes, label):
    return [np.asarray(line.get_data(), float) for line in axes.lines if line.get_label() == label]


@pytest.mark.parametrize(
    ("n", "windows", "top"),
    [(1, [1], 1), (40, 5, 0), (13, [3, 1, 9], 12), (152, [20, 1, 1, 130], 4)],
)
def test_curves_have_all_scores(n, windows, top):
    result = result_of(numbered(n), windows)
    figure = result.plot(top=top)
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(result.scores)
    compared = {i for lo, hi in result.windows for i in range(lo, hi) if hi - lo > 1}
    for axes, (name, scores) in zip(figure.axes, result.scores.items(), strict=True):
        ((numbers, values),) = lines_of(axes, "scores")
        is_score = ~np.isnan(numbers)
        assert numbers[is_score].tolist() == list(range(1, n + 1))
        assert values[is_score].tolist() == scores
        ends = [int(numbers[gap - 1]) for gap in np.flatnonzero(~is_score)]
        assert ends == [hi for _, hi in result.windows[:-1]], "lines end at window borders"
        assert [x[0] for x, _ in lines_of(axes, "border")] == [hi + 0.5 for hi in ends]
        shown = {(int(x[0]) - 1, y[0]) for x, y in lines_of(axes, "labelled")}
        best = [each for each in result.top(n, name) if each.index in compared][: min(top, 10)]
        assert shown == {(sentence.index, sentence.score) for sentence in best}
        assert {text.get_text() for text in axes.texts} == {str(i + 1) for i, _ in shown}


@pytest.mark.parametrize(
    ("n", "windows", "width"), [(1, 1, 7), (34, 5, 3.3), (3000, 430, 7), (300, 300, 3.3)]
)
def test_nothing_overlaps_or_is_cut_off(n, windows, width):
    figure = result_of(numbered(n), windows, cut_tokens=3).plot(top=10, width=width)
    figure.set_dpi(200)
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == width and figure.get_size_inches()[1] < 12
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts]
    for text, box in boxes:
        assert box.x0 > 0 and box.y0 > 0, text
        assert box.x1 < figure.bbox.x1 and box.y1 < figure.bbox.y1, text
    for (text, a), (other, b) in itertools.combinations(boxes, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 0 or down <= 1, (text, other)
    hidden = any("too narrow to be marked" in text for text, _ in boxes)
    assert hidden is (windows > 80)
    assert bool(lines_of(figure.axes[0], "border")) is (1 < windows <= 80)


def test_any_text_is_shown_as_text():
    """In full or shortened; it is not parsed as mathematics, gives no warning, and an SVG stays
    valid XML."""
    for texts, name in ((NASTY[:6], NASTY[0]), (NASTY[6:], NASTY[1])):
        result = result_of(texts, name=name, operations=(NASTY[2],))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure = result.plot(top=6)
            assert render(figure, "png").startswith(b"\x89PNG")
            shown = texts_of(render(figure, "svg"))
        for text in (*texts, NASTY[2], result.name):
            assert any(line.startswith(one_line(text)[:3].strip()) for line in shown), text


@pytest.mark.parametrize(
    ("text", "script", "font"),
    [
        ("两位老姐妹", "Chinese", "Noto Sans CJK SC"),
        ("二人の老姉妹", "Japanese", "Noto Sans CJK JP"),
        ("늙은 자매", "Korean", "Noto Sans CJK KR"),
        ("दो बहनें", "Devanagari", "Noto Sans Devanagari"),
    ],
)
def test_a_script_without_a_font_is_named_once(monkeypatch, caplog, tmp_path, text, script, font):
    monkeypatch.setattr(font_manager, "get_font_names", lambda: ["DejaVu Sans"])
    fonts._tell.cache_clear()
    result = result_of([text, "الأختان", "Сестры", "Sisters"])
    result.plot(tmp_path / "a.svg")
    assert not caplog.records, "an SVG is shown in other fonts"
    result.plot(tmp_path / "a.png")
    result.plot(tmp_path / "a.png")
    (record,) = caplog.records
    assert f"letters of {script}," in record.message and f"install {font}," in record.message


def test_installed_fonts_draw_letters_that_the_users_lack(monkeypatch, caplog, tmp_path):
    """Here a font with one letter of Devanagari, under a name of macOS."""
    letter, family = "क", "Kohinoor Devanagari"
    builder = FontBuilder(1000)
    builder.setupGlyphOrder([".notdef", "ka"])
    builder.setupCharacterMap({ord(letter): "ka"})
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    pen.lineTo((500, 500))
    pen.lineTo((500, 0))
    pen.closePath()
    builder.setupGlyf(dict.fromkeys([".notdef", "ka"], pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys([".notdef", "ka"], (600, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "one.ttf")
    manager = font_manager.fontManager
    monkeypatch.setattr(manager, "ttflist", [f for f in manager.ttflist if "DejaVu" in f.name])
    manager.addfont(tmp_path / "one.ttf")
    figure = result_of([letter * 3, "Sisters"]).plot()
    assert family.encode() in render(figure, "svg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(tmp_path / "a.png")
    caplog.clear()
    render(figure, "png")
    assert not caplog.records, "the font has no bold letters for the title, either"
    english = render(result_of(["Sisters"]).plot(), "svg")
    assert family.encode() not in english, "figures without such letters stay the same"


def test_text_from_right_to_left():
    """Titles stay in the order name, numbers; sentences begin at the right in SVG, too."""
    result = result_of(["عاشت أختان.", "Sisters."], name="الأختان")
    svg = render(result.plot(), "svg")
    assert "\u200eالأختان\u200e: 2 sentences, 1 window" in texts_of(svg)
    assert b"text{unicode-bidi:plaintext}</style>" in svg


def test_matplotlib_settings_of_the_process_are_kept():
    result = result_of(numbered(5))
    plain = render(result.plot(), "svg")
    with matplotlib.rc_context({"text.usetex": True, "svg.hashsalt": "other"}):
        before = matplotlib.rcParams.copy()
        assert render(result.plot(), "svg") == plain and matplotlib.rcParams.copy() == before
    with matplotlib.rc_context({"font.family": "DejaVu Serif"}):
        assert b"DejaVu Serif" in render(result.plot(), "svg"), "fonts are those of the user"


def test_figures_are_saved_with_the_same_bytes_each_time(tmp_path):
    for form, plot in (("png", result_of(numbered(34), 5).plot), ("svg", result_of("ab").plot)):
        for name in (f"one.{form}", f"two.{form.upper()}"):
            plot(tmp_path / name)
        first, second = ((tmp_path / each).read_bytes() for each in (f"one.{form}", name))
        assert first == second and b"date" not in first
    assert imread(tmp_path / "one.png").shape[1] == 1400 and len(list(tmp_path.iterdir())) == 4


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10).map(sorted), st.floats(0, 30))
@settings(max_examples=50)
def test_labels_are_apart_and_near_what_they_name(wanted, gap):
    positions = space_labels(wanted, gap, 0, 100)
    gap = min(gap, 100 / max(1, len(wanted) - 1))
    assert all(-1e-9 <= position <= 100 + 1e-9 for position in positions)
    assert all(b - a >= gap - 1e-9 for a, b in itertools.pairwise(positions))
    if all(b - a >= gap for a, b in itertools.pairwise(wanted)):
        assert positions == pytest.approx(wanted)


def test_errors(tmp_path, monkeypatch):
    result = result_of(numbered(3))
    for options, kind, problem in (
        ({"operations": "erasure"}, ValueError, "choose from deletion, summarization"),
        ({"top": -1}, ValueError, "can't be negative"),
        ({"path": tmp_path / "a.pdf"}, ValueError, "use a name that ends in .png or .svg"),
        ({"path": tmp_path / "nowhere" / "a.png"}, FileNotFoundError, "create it first"),
    ):
        with pytest.raises(kind, match=problem):
            result.plot(**options)
    monkeypatch.setattr(extras, "version", Mock(side_effect=PackageNotFoundError))
    for call in (result.plot, lambda: plot_curves({}, tmp_path / "a.png")):
        with pytest.raises(ImportError, match=r"pip install 'narrative_twins\[plot\]'"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_training_curves_have_the_same_style(tmp_path):
    path = tmp_path / "curves.svg"
    curves = {"loss": [(1, 2.0)], "eval_loss": [(1, 2.5)], "eval_$x$_spearman": [(1, 0.5)]}
    plot_curves(curves, path)
    assert {"loss", "eval_loss", "$x$_spearman", "step"} <= set(texts_of(path.read_bytes()))
    assert PALETTE[0].lower().encode() in path.read_bytes()

"""Tables, pages and output formats: complete, escaped, readable; a new format is one function."""

import io
import json
import re
import sys
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from unicodedata import east_asian_width

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.image import imread
from rich.console import Console

from narrative_twins import (
    BookSalience,
    Story,
    StoryEncoder,
    StorySalience,
    score_book,
    score_stories,
)
from narrative_twins.app.result_html import downloads
from narrative_twins.commands.cli import main
from narrative_twins.data.sources import corpus_rows
from narrative_twins.plots.shades import (
    PALE,
    PALE_DARK,
    STEPS,
    STRONG,
    STRONG_DARK,
    hex_color,
    palette,
    shades,
    steps,
)
from narrative_twins.salience import ranking
from narrative_twins.salience.wording import shown_score
from narrative_twins.show.formats import FORMATS, read_results, register_format, write_results
from narrative_twins.show.pages import decimals, fenced, quoted, story_reading, to_html
from narrative_twins.show.terminal import BARS, MARK, marked, to_table

from support.models import small
from support.parsed import Parsed
from support.results import NASTY, texts_of
from support.results import result_of as random_result
from support.rows import write_rows
from support.tales import TALE


def result_of(sentences, windows=1, cut_tokens=0, name=None):
    n = len(sentences)
    story = Story.parse({"id": name, "sentences": sentences, "windows": windows})
    scores = {"deletion": [i / n for i in range(n)], "summarization": [1 - i / n for i in range(n)]}
    return StorySalience(story, scores, 512, cut_tokens)


def rendered(result, colours=False, **options) -> str:
    system = "truecolor" if colours else None
    console = Console(width=200, force_terminal=colours, color_system=system)
    with console.capture() as captured:
        console.print(to_table(result, **options))
    return captured.get()


def html_of(*results, **options) -> str:
    return "".join(to_html(results, **options))


def svg_of(result) -> str:
    return " ".join(texts_of(b"".join(write_results([result], "svg"))))


def test_tables_have_every_sentence_and_score():
    text = rendered(result_of(["Nadia ran.", "It rained.", "It is.", "Nobody knew."], windows=2))
    words = "deletion|summarization|Nadia ran.|It rained.|Nobody knew.|★ 1.000 █|★ 0.750 █|0.000 ▁"
    assert all(each in text for each in ["story 1: 4 sentences, 2 windows", *words.split("|")])
    text = rendered(result_of(["Nadia ran.", "It rained."]), colours=True)
    assert f"48;2;{';'.join(map(str, STRONG))}" in text
    assert re.search(r"\x1b\[2m[^\x1b]*It rained", text)
    assert re.search(r"\x1b\[1m[^\x1b]*Nadia ran", text)


@pytest.mark.parametrize("show", [rendered, html_of])
def test_windows_truncation_and_top(show):
    text = " ".join(show(result_of(["A.", "B.", "C."], [2, 1], cut_tokens=7)).split())
    wanted = ["window 1: sentences 1 to 2", "A.", "B.", "window 2: sentences 3 to 3", "C."]
    places = [text.index(words) for words in wanted if show is rendered]
    assert places == sorted(places)
    assert "The story is longer than the 512 tokens that the encoder reads at once" in text
    assert "without up to 7 of its tokens" in text
    assert not {"window 1:", "longer than"} & set(show(result_of(["A.", "B."])).split())
    text = show(result_of(["A.", "B.", "C."], [2, 1]), top=1)
    assert "A." in text and "B." not in text and "window 2" not in text
    # By the other operation, "C." is the most salient.
    assert ("C." in text) is (show is html_of)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.text())
def test_any_text_is_shown_as_text(texts, name):
    try:
        result = result_of(texts, name=name)
    except ValueError:
        return
    page, plain = Parsed(html_of(result)), Parsed(html_of(result_of(["x"] * len(texts))))
    assert page.tags == plain.tags and len(page.rows) == len(texts) + 1
    controls = dict.fromkeys([*range(32), *range(127, 160), 0xFFFE, 0xFFFF], "\ufffd")
    for text, row in zip(texts, page.rows[1:], strict=True):
        assert row[-1] == quoted(" ".join(text.split()).translate(controls))
    assert not {"\x1b", "\x07"} & set(rendered(result))


@given(st.lists(st.text("ab", min_size=1, max_size=40), min_size=1).map(" ".join))
@example("w" * 500)
@example("w " + "v" * 500)
def test_a_long_quotation_ends_after_a_word_unless_the_word_is_long(text):
    quotation = quoted(text)
    if len(text) <= 160:
        assert quotation == text
        return
    kept = quotation.removesuffix("…")
    assert quotation == f"{kept}…" and 130 <= len(quotation) <= 160 and text.startswith(kept)
    assert text[len(kept)] == " " or " " not in text[130:160]


def test_pages_load_nothing_and_markup_of_others_is_text():
    markup = "[bold red]rich[/] {{ 7 * 7 }} {% raw %}"
    page = html_of(result_of([markup, "B."]))
    assert markup in page and "[bold red]rich[/]" in rendered(result_of([markup]))
    assert "://" not in page and page.startswith("<!doctype html>") and 'charset="utf-8"' in page
    assert not {"link", "img", "iframe"} & set(Parsed(page).tags)
    # The policy of the page allows its own script only.
    (code,) = re.findall("<script>(.*?)</script>", page, re.S)
    digest = b64encode(sha256(code.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page and page.count("<script") == 1
    any_text = random_result(NASTY, name="\ud83d")
    notebook = any_text._repr_html_()
    assert Parsed(notebook).tags.count("span") == len(NASTY) and "<script" not in notebook
    (html_of(any_text) + notebook).encode("utf-8")
    assert '<div dir="auto" lang="ja"' in random_result(["彼は家に帰った。"])._repr_html_()


@pytest.mark.parametrize("language", ["zh", "ja", "ko"])
def test_tables_of_wide_characters_fit_the_terminal(language):
    """A character of these scripts is as wide as two letters."""
    rows = corpus_rows("translations")["validation"]
    row = next(row for row in rows if row["id"].endswith(language))
    console = Console(width=60)
    with console.capture() as captured:
        console.print(to_table(random_result(["".join(row["story"]), *row["story"]])))
    lines = captured.get().splitlines()
    widths = [sum(1 + (east_asian_width(char) in "WF") for char in line) for line in lines]
    assert len(lines) > 12 and set(widths) == {60}
    # Each after the first, which has them all.
    rows = [next(line for line in reversed(lines) if text[:4] in line) for text in row["story"]]
    begins = {line.index(text[:4]) for line, text in zip(rows, row["story"], strict=True)}
    assert len(begins) == 1, "all sentences begin in one column"


def test_pages_are_written_as_results_arrive():
    read = []
    next(to_html(read.append(i) or result_of(["A."]) for i in range(2000)))
    assert 0 < len(read) < 1000


def luminance(colour):
    shares = [c / 255 for c in colour]
    red, green, blue = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_text_has_contrast_on_every_shade():
    scores = [i / 20 - 0.5 for i in range(21)]
    light, dark = shades(scores), shades(scores, PALE_DARK, STRONG_DARK)
    assert palette()[0::STEPS] == [hex_color(PALE), hex_color(STRONG)]
    assert steps(scores) == sorted(steps(scores)) and set(steps(scores)) == set(range(STEPS + 1))
    assert (light[0], light[-1], dark[0], dark[-1]) == (PALE, STRONG, PALE_DARK, STRONG_DARK)
    for pale, deep in zip(light, dark, strict=True):
        assert (luminance(pale) + 0.05) / (luminance((0x1B, 0x1B, 0x1F)) + 0.05) >= 7.5
        assert (luminance((236, 231, 223)) + 0.05) / (luminance(deep) + 0.05) >= 4.5
    assert shades([0.5, 0.5]) == [PALE, PALE]


def test_what_is_alone_in_its_window_has_no_star_no_bar_and_no_shade():
    """Nothing can be compared there, which a line says."""
    one, two = result_of(["A."]), result_of(["A.", "B.", "C.", "D."], [1, 2, 1])
    line = "A {} of one sentence has nothing to compare it with, so no star and no bar."
    for result, what in ((one, "story"), (two, "window")):
        for shown in (rendered(result), html_of(result), result._repr_html_(), svg_of(result)):
            assert line.format(what) in " ".join(unescape(shown).split())
    assert not any(sign in rendered(one) for sign in f"{MARK}{BARS}")
    assert not re.search("most salient|Shaded", rendered(one))
    page = str(story_reading(one))
    assert 'class="s0"' in page and not re.search("<svg|underlined|Most salient| top", page)
    # The first sentence has the highest summarization, the last the highest deletion.
    rows = [" ".join(row.split()) for row in rendered(two).splitlines() if re.match(r" \d", row)]
    shown = "1 0.000 1.000 A.|2 0.250 ▁ ★ 0.750 █ B.|3 ★ 0.500 █ 0.500 ▁ C.|4 0.750 0.250 D."
    assert "|".join(rows) == shown and ranking.marked(two, "deletion", 3) == [2, 1]
    page = str(story_reading(two))
    assert re.findall(r'class="(s\d.*?)"', page) == ["s0", "s9 top", "s0", "s0"]
    # Neither has a point on the curve.
    points = re.findall('<polyline points="(.*?) "', page)
    assert [line.count(",") for line in points] == [2, 2]


@pytest.mark.parametrize(("n", "stars"), [(2, 1), (8, 2), (35, 7)])
def test_the_most_salient_fifth_is_marked(n, stars):
    result = result_of([f"{i}." for i in range(n)])
    assert marked(result, "summarization") == set(range(stars))
    assert marked(result, "deletion") == set(range(n - stars, n))


def test_headings_are_shown_without_scores():
    text = "Chapter 1\n\nIt rained. He ran.\n\n## <Two>\n\nHe slept.\n\nEpilogue"
    result = StorySalience(Story.parse(text), {"summarization": [0.1, 0.2, 0.3]}, 512, 0)
    (inside,) = re.findall('<div class="text".*?</div>', html_of(result), re.S)
    assert Parsed(inside).text == text
    assert re.findall("<span.*?>(.*?)</span>", inside) == ["It rained.", "He ran.", "He slept."]
    assert "Chapter 1" not in html_of(result, top=2)


def test_the_most_salient_sentence_and_a_curve_come_first():
    result = result_of(["A.", "B.", "C.", "D."], windows=2)
    page = str(story_reading(result))
    assert (
        page.index("Most salient is sentence 1 of 4") < page.index("<svg") < page.index("<span id")
    )
    assert Parsed(page).texts["a"] == ["A.", "D."]  # by summarization, by deletion
    assert {attributes["href"] for tag, attributes in Parsed(page).elements if tag == "a"} <= {
        f"#{attributes.get('id')}" for _, attributes in Parsed(page).elements
    }
    data = json.loads(re.search("data-operations='(.*?)'", page)[1])
    assert [each["name"] for each in data] == ["summarization", "deletion"]
    assert data[0]["scores"] == [1000, 750, 500, 250] and data[0]["ranks"] == [1, 2, 3, 4]
    assert (data[0]["shades"], data[1]["shades"]) == ("j630", "036j")
    points = re.search('<polyline points="(.*?) "', page)[1].split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights == sorted(heights), "the curve goes down with the scores"


def test_decimals_differ():
    assert [decimals([0.1, 0.1 + spread], "float32") for spread in (0, 0.5, 0.02, 0.002)] == [
        3,
        3,
        3,
        4,
    ]
    assert decimals([0.1, 0.1000001], "float32") == 6
    assert decimals([0.1, 0.10001], "float16") == 3 and decimals([0.1, 0.2], "bfloat16") == 2


@given(st.lists(st.floats(-1, 1), min_size=1))
def test_what_is_far_below_the_others_is_raised_only(scores):
    raised = fenced(scores)
    assert all(new >= old for new, old in zip(raised, scores, strict=True))
    assert max(raised) == max(scores)
    assert fenced([0.9, 0.91, 0.92, 0.93, 0.2])[-1] == pytest.approx(
        0.91 - 1.5 * 0.02 - 0.01, abs=0.011
    )


@pytest.fixture
def score(bert_folder, tmp_path, capsys):
    stories = {"one": tmp_path / "one.txt", "two": tmp_path / "two.jsonl"}
    stories["one"].write_text("Nadia ran. It rained. The mill burned.")
    stories["two"].write_text('"Nadia ran. It rained."\n"He left."\n')

    def call(name, *arguments):
        command = ["score", stories[name], "--model", bert_folder, "--device", "cpu", *arguments]
        return main([str(part) for part in command]), capsys.readouterr().err

    return call


def test_images_by_the_command(score, tmp_path, monkeypatch):
    assert score("one", "-o", tmp_path / "one.svg", "--top", "1") == (0, "")
    shown = set(texts_of((tmp_path / "one.svg").read_bytes()))
    assert {"deletion", "shifting", "story 1 of one.txt: 3 sentences, 1 window"} <= shown
    code, err = score("two", "-o", tmp_path / "bad.png")
    assert code == 1 and "an image shows one story, not several; write several as html" in err
    assert not list(tmp_path.glob("bad.png*"))
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(data, encoding="utf-8"))
    assert score("one", "-f", "png")[0] == 0
    assert imread(io.BytesIO(data.getvalue())).shape[1] == 1400


def test_a_new_format_is_one_function(score, tmp_path, monkeypatch):
    """The command offers it, its suffix implies it, and the page offers it as a download."""
    monkeypatch.setitem(FORMATS, "counts", None)

    @register_format("counts", "text/x-counts", suffixes=(".counts",))
    def counts(results, layout):
        return (f"{len(result.sentences)}\n" for result in results)

    assert score("one", "-o", tmp_path / "a.counts") == (0, "")
    assert (tmp_path / "a.counts").read_text() == "3\n"
    assert score("one", "-f", "counts", "-o", tmp_path / "b") == (0, "")
    assert list(write_results([result_of(["A."])], "counts")) == ["1\n"]
    offered = downloads(result_of(["A."]))
    assert "counts" in offered and "text" not in offered


# Decimals: the ones that hold in the dtype, which tables, pages and saved results name

DECIMALS = {"float32": 3, "float64": 3, None: 3, "float16": 3, "bfloat16": 2}
SENTENCES = ["Nadia ran.", "It rained.", "The mill burned down."]


def decimals_in(text: str) -> list[int]:
    """The decimals of each number with some in a text; of a page, of what can be read there."""
    read = re.sub(
        '<(style|script|svg).*?</\\1>|style="[^"]*"|data-operations=.*?>', "", text, flags=re.S
    )
    return [len(digits) for digits in re.findall(r"(?<![\d.])\d\.(\d+)", read)]


@pytest.fixture(scope="module")
def book():
    return score_book(TALE, small())


@pytest.mark.parametrize("dtype", DECIMALS)
def test_stories_and_books(book, dtype):
    number, story = DECIMALS[dtype], replace(random_result(SENTENCES), dtype=dtype)
    tale = replace(book, dtype=dtype)
    for result, results in ((story, [story]), (tale, tale)):
        pages = ["".join(write_results(results, form)) for form in ("text", "html")]
        for text in (*pages, result._repr_html_()):
            shown = decimals_in(text)
            # Pages show more where scores would hardly differ, if more hold.
            holds = text.startswith("<!doctype") and dtype in ("float32", "float64", None)
            assert set(shown) == {number} or (holds and set(shown) <= set(range(number, 7)))
            assert len(shown) >= 6 and number in shown
        for text in pages:
            assert (f"Computed in {dtype}" in " ".join(text.split())) is (dtype is not None)
            assert ("in which only 2 decimals hold." in text) is (number == 2)
    assert BookSalience.from_dict(json.loads(json.dumps(tale.json()))).dtype == dtype


def test_results_have_the_dtype_and_results_saved_without_one_are_read(book, tmp_path):
    (result,) = score_stories([SENTENCES], small())
    assert result.dtype == result.json()["dtype"] == book.dtype == "float32"
    old = result.json()
    del old["dtype"]
    saved = write_rows(tmp_path / "scores.jsonl", [result.json(), old])
    assert list(read_results([saved])) == [result, replace(result, dtype=None, index=1)]
    old_book = book.json()
    del old_book["dtype"]
    assert BookSalience.from_dict(old_book) == replace(book, dtype=None)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_decimals_that_are_shown_hold(default, dtype):
    """Of packaged stories: a number is that of float32, give or take one in its last place."""
    stories = [row["story"] for row in corpus_rows("stories")["validation"]][:12]
    encoder = StoryEncoder.from_pretrained(device="cpu", dtype=dtype)
    pairs = zip(score_stories(stories, default), score_stories(stories, encoder), strict=True)
    for exact, rounded in pairs:
        assert (exact.dtype, rounded.dtype) == ("float32", dtype)
        for name, scores in exact.scores.items():
            shown = [float(shown_score(score, dtype)) for score in rounded.scores[name]]
            # At most one in the last place, and the half that rounding takes.
            assert np.abs(np.array(shown) - scores).max() <= 1.5 * 10 ** -DECIMALS[dtype]

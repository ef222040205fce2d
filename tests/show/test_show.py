"""Tables and HTML pages: complete, escaped, readable."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from narrative_twins import Story, StorySalience, score_stories
from narrative_twins.plots.shades import PALE, STRONG, shades
from narrative_twins.show.highlights import marked
from narrative_twins.show.html import INK, to_html
from narrative_twins.show.shaded import shaded_text
from narrative_twins.show.table import to_table

from support.models import small


def result_of(sentences, windows=1, cut_tokens=0, name=None, scores=None):
    n = len(sentences)
    story = Story.parse({"id": name, "sentences": sentences, "windows": windows})
    scores = scores or {
        "deletion": [i / n for i in range(n)],
        "summarization": [1 - i / n for i in range(n)],
    }
    return StorySalience(story, scores, 512, cut_tokens)


def rendered(result, **options) -> str:
    colours = options.pop("colours", False)
    console = Console(
        width=200, force_terminal=colours, color_system="truecolor" if colours else None
    )
    with console.capture() as captured:
        console.print(to_table(result, **options))
    return captured.get()


class Page(HTMLParser):
    """A parsed page: its elements, and the text of its table cells by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.rows, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_tables_have_every_sentence_and_score():
    text = rendered(result_of(["Nadia ran.", "It rained.", "Nobody knew."], windows=2))
    assert "story 1: 3 sentences, 2 windows" in text
    for wanted in (
        "deletion",
        "summarization",
        "Nadia ran.",
        "It rained.",
        "Nobody knew.",
        "★ 1.000 █",
        "★ 0.667 █",
        "0.000 ▁",
    ):
        assert wanted in text


def test_tables_have_colours_and_bold_text():
    text = rendered(result_of(["Nadia ran.", "It rained."]), colours=True)
    assert re.search(r"\x1b\[2m[^\x1b]*It rained", text)
    strong = ";".join(map(str, STRONG))
    assert f"48;2;{strong}" in text
    assert re.search(r"\x1b\[1m[^\x1b]*Nadia ran", text)
    assert not re.search(r"\x1b\[1m[^\x1b]*It rained", text)


def test_windows_have_headings():
    result = result_of(["A.", "B.", "C."], windows=[2, 1])
    for text in (rendered(result), "".join(to_html([result]))):
        assert text.index("window 1: sentences 1 to 2") < text.index("A.") < text.index("B.")
        assert text.index("B.") < text.index("window 2: sentences 3 to 3") < text.index("C.")
    assert "window 1:" not in rendered(result_of(["A.", "B.", "C."]))


def test_truncation_is_noted():
    for text in (
        rendered(result_of(["A."], cut_tokens=7)),
        "".join(to_html([result_of(["A."], cut_tokens=7)])),
    ):
        flat = " ".join(unescape(text).split())
        assert "The story is longer than the 512 tokens that the encoder reads at once" in flat
        assert "without up to 7 of its tokens" in flat
    assert "longer than" not in rendered(result_of(["A."]))


def test_top():
    result = result_of(["A.", "B.", "C.", "D."])
    page = Page("".join(to_html([result], top=2)))
    assert [row[-1] for row in page.rows[1:]] == ["A.", "B."]
    assert "C." not in rendered(result, top=2)
    assert "window 2" not in rendered(result_of(["A.", "B.", "C."], windows=[2, 1]), top=1)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.text())
@settings(max_examples=100)
def test_any_text_is_shown_as_text(texts, name):
    """It is escaped, so that it adds no elements to the page."""
    try:
        result = result_of(texts, name=name)
    except ValueError:
        return
    page = Page("".join(to_html([result])))
    plain = Page("".join(to_html([result_of(["x"] * len(texts))])))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert len(page.rows) == len(texts) + 1
    for text, row in zip(texts, page.rows[1:], strict=True):
        controls = dict.fromkeys(
            [*range(32), *range(127, 160), 0xFFFE, 0xFFFF], "\N{REPLACEMENT CHARACTER}"
        )
        assert row[-1] == " ".join(text.split()).translate(controls)
    shown = rendered(result)
    assert "\x1b" not in shown and "\x07" not in shown


def test_markup_is_escaped():
    nasty = "<script>alert('x')</script> [bold red]rich[/] {{ 7 * 7 }} \x1b[2J"
    page = "".join(to_html([result_of([nasty, "B."], name=nasty)]))
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; [bold red]rich[/] {{ 7 * 7 }}" in page
    assert "[bold red]rich[/]" in rendered(result_of([nasty, "B."], name=nasty))


def test_pages_load_no_external_resources():
    page = "".join(to_html(score_stories(["Nadia ran. It rained."], small())))
    assert "://" not in page
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in Page(page).tags}
    assert page.startswith("<!doctype html>") and 'charset="utf-8"' in page


def test_pages_are_written_lazily():
    read = []
    pieces = to_html(read.append(i) or result_of(["A."]) for i in range(3))
    next(pieces)
    next(pieces)
    assert read == [0]


def luminance(colour):
    """The relative luminance of WCAG 2."""
    linear = [
        c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4
        for c in colour
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=9))
def test_text_has_contrast_on_every_shade(scores):
    colours = shades(scores)
    assert len(colours) == len(scores)
    for colour in colours:
        light, dark = luminance(colour) + 0.05, luminance(INK) + 0.05
        assert light / dark >= 7.5
    if max(scores) - min(scores) > 1e-6:
        assert colours[scores.index(max(scores))] == STRONG
        assert colours[scores.index(min(scores))] == PALE


@pytest.mark.parametrize(("n", "stars"), [(1, 1), (5, 1), (8, 2), (35, 7)])
def test_the_most_salient_fifth_is_marked(n, stars):
    result = result_of([f"{i}." for i in range(n)])
    assert marked(result, "summarization") == set(range(stars))
    assert marked(result, "deletion") == set(range(n - stars, n))


def test_headings_are_shown_without_scores():
    story = Story.parse("Chapter 1\n\nIt rained. He ran.\n\n# <Two>\n\nHe slept.\n\nEpilogue")
    assert story.sentences == ("It rained.", "He ran.", "He slept.")
    result = StorySalience(story, {"summarization": [0.1, 0.2, 0.3]}, 512, 0)
    rows = [row for row in Page("".join(to_html([result]))).rows if row]
    assert [row[-1] for row in rows][-6:] == [
        "Chapter 1",
        "It rained.",
        "He ran.",
        "# <Two>",
        "He slept.",
        "Epilogue",
    ]
    assert [row[0] for row in rows][-6:] == ["", "1", "2", "", "3", ""]
    assert "Chapter 1" not in "".join(to_html([result], top=2))
    shaded = shaded_text(result)
    assert "Chapter 1\n\n<span" in shaded and "# &lt;Two&gt;" in shaded

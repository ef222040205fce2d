"""What notebooks and terminals show of results and figures."""

from __future__ import annotations

import io
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.image import imread

from narrative_twins import Story, StorySalience, show

from support.results import NASTY, any_text, result_of


class Spans(HTMLParser):
    """The text, the style and the title of each sentence, and the tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.spans, self.inside = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "span":
            self.inside = True
            self.spans.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "span"

    def handle_data(self, data):
        if self.inside:
            self.spans[-1][1] += data


def test_a_result_shows_its_story():
    story = Story.parse({"id": "A-1", "text": "Nadia ran. It rained.\n\nThe mill burned."})
    result = StorySalience(
        story, {"deletion": [0.5, 0.25, 0.1], "summarization": [0.1, 0.2, 0.9]}, 512, 7
    )
    page = result._repr_html_()
    found = Spans(page)
    assert [text for _, text in found.spans] == list(result.sentences)
    titles = [attributes["title"] for attributes, _ in found.spans]
    assert (
        titles[2]
        == "Sentence 3 of 3, rank 1 by summarization: deletion 0.100 · summarization 0.900"
    )
    styles = [attributes["style"] for attributes, _ in found.spans]
    assert all("background:#" in style and ";color:#1b1b1f" in style for style in styles), (
        "dark pages have pale text"
    )
    assert ["bold" in style for style in styles] == [False, False, True]
    assert "background:#f29e4c" in styles[2] and "background:#ffffff" in styles[0]
    assert found.tags.count("br") == 2 and page.index("It rained.") < page.index(
        "<br>"
    ) < page.index("The mill")
    assert "A-1: 3 sentences" in page and "without up to 7 of its tokens" in page
    assert "<style" not in page and "<script" not in page


@given(st.lists(any_text, min_size=1, max_size=5))
@settings(max_examples=50)
def test_any_text_is_escaped(texts):
    page = result_of(texts, name=NASTY[7])._repr_html_()
    assert Spans(page).tags.count("span") == len(texts)
    assert "<script" not in page
    page.encode("utf-8")


def test_long_stories_are_cut_in_notebooks():
    page = result_of(["A."] * 2003)._repr_html_()
    assert len(Spans(page).spans) == 2000 and "3 more sentences not shown" in page


def test_the_repr_is_short():
    text = repr(result_of(["A long sentence. " * 100] * 50, name="n" * 500))
    assert len(text) < 200 and "50 sentences, 1 window; most salient by summarization: " in text
    assert repr([result_of(["A.", "B."], name="x")]).startswith(
        "[<StorySalience x: 2 sentences, 1 window;"
    )


def test_figures_show_themselves_once():
    """Without `%matplotlib inline`, by a method of their own; pyplot would show them a second
    time."""
    before = pyplot.get_fignums()
    results = [result_of(["A.", "B."], name=name) for name in "ab"]
    for figure in (results[0].plot(), show.plot_stories(results)):
        shown = imread(io.BytesIO(figure._repr_png_()))
        assert 600 < shown.shape[1] < 1000
        figure.savefig(io.BytesIO())
    assert pyplot.get_fignums() == before

"""`BookSalience`: ranks, extracts, plain data, tables, figures and the table of contents."""

import cProfile
import json
import pstats
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, BookSalience, score_book
from narrative_twins.show.formats import write_results
from narrative_twins.show.pages import book_reading

from support.models import small
from support.parsed import Parsed
from support.tales import TALE, book_of


@pytest.fixture(scope="module")
def result():
    return score_book(TALE, small(), approximate=None)


def made(*chapters, title=None):
    """A result with scores of sentences: each chapter is a heading and windows of pairs of text and
    score."""
    result = BookSalience(title, levels=("sentence",))
    for heading, *windows in chapters:
        edges = [0, *accumulate(map(len, windows))]
        texts, scores = zip(*(pair for window in windows for pair in window), strict=True)
        spans = [(len(result.sentences) + at,) * 2 for at in range(len(texts))]
        scene = {"sentences": texts, "spans": spans, "windows": list(pairwise(edges))}
        scene |= {"span": spans[0], "paragraphs": [0], "scores": {"summarization": scores}}
        row = {"heading": heading, "span": spans[0], "scenes": [scene], "scores of scenes": {}}
        result.add(row)
        result.add_scores(row)
    return result


def test_ranks_and_tops(result):
    for level in result.levels:
        scored = result.at(level)
        units, scores, ranks = list(scored), scored.scores_of(), scored.rank()
        top = result.top(2, level)
        assert [unit.scores["summarization"] for unit in top] == sorted(scores, reverse=True)[:2]
        assert top[0] == units[ranks.index(1)]
    assert result.top(1) == result.top(1, "sentence")
    with pytest.raises(ValueError, match="level 'page' is unknown"):
        result.units("page")
    with pytest.raises(ValueError, match="level 'chapter' was not scored"):
        made(("One", [("A.", 0.5)])).at("chapter")
    assert any("are from one pass over the book" in note for note in result.notes)
    assert repr(result).startswith(
        "<BookSalience The Mill: 3 chapters, 6 scenes, 11 sentences; most salient chapter:"
    )


def test_plain_data_and_back(result):
    alone = (score_book(TALE, small(), levels=level) for level in result.levels)
    for each in (result, *alone):
        assert BookSalience.from_dict(json.loads(json.dumps(each.json()))) == each
    for change, message in (
        (lambda data: data.pop("chapters"), "no valid 'chapters'"),
        (lambda data: data.update(levels=[]), "one of its 'levels'"),
        (
            lambda data: data["scores of chapters"].update(deletion=[1.0]),
            "the scores of 'deletion' are not",
        ),
        (lambda data: data["chapters"][1].pop("scenes"), "chapter 2: it has no valid 'scenes'"),
        (
            lambda data: data["chapters"][0]["scenes"][0].update(windows=[[0, 2]]),
            "do not partition",
        ),
    ):
        change(data := json.loads(json.dumps(result.json())))
        with pytest.raises(ValueError, match=message):
            BookSalience.from_dict(data)


def test_a_table_has_a_row_per_unit(result):
    table = result.to_pandas()
    assert table["level"].value_counts().to_dict() == {"sentence": 11, "scene": 6, "chapter": 3}
    assert list(table.columns[7:]) == list(OPERATIONS)
    sentences = table[table["level"] == "sentence"]
    texts = [TALE.text[row.start : row.end] for row in sentences.itertuples()]
    assert texts == list(sentences["text"]) and table["shifting"].notna().all()


@pytest.mark.parametrize("level", ["chapter", "scene", "sentence"])
def test_plots(result, level, tmp_path):
    figure = result.plot(tmp_path / "book.svg", level)
    assert (tmp_path / "book.svg").stat().st_size > 1000
    panels = [axes for axes in figure.axes if axes.get_label().startswith("panel")]
    assert len(panels) == len(result.at(level).scores)
    assert figure.axes[-1].get_xlabel().startswith(level)


def test_pages_and_notebooks_show_a_table_of_contents():
    book = book_of(
        ["Chapter <1>", "Nadia <b>ran</b>. It rained.", "***", "She slept."],
        ["Chapter 2", "It & he."],
    )
    result = score_book(book, small(), approximate=None)
    html = str(book_reading(result))
    page, cell = Parsed(html), Parsed(result._repr_html_())
    assert page.texts["b"] == ["Chapter <1>", "scene 1", "scene 2", "Chapter 2"]
    assert "Nadia <b>ran</b>." in page.text
    for shown in (page, cell):
        assert "Chapter <1>" in shown.text and "script" not in shown.tags


def test_an_extract_is_spread_over_the_book():
    quiet = [(f"Quiet {i}.", 0.1 + i / 100) for i in range(5)]
    loud = [(f"Loud {i}.", 0.9) for i in range(5)]
    result = made(("One", quiet, quiet), ("Two", loud, loud), title="Tale")
    texts = [unit.text for unit in result.extract(4)]
    assert texts == ["Quiet 4.", "Quiet 4.", "Loud 0.", "Loud 0."]
    # Two windows have one sentence together: any of theirs may be chosen.
    extract = result.extract(share=0.1)
    assert [unit.text for unit in extract] == ["Quiet 4.", "Loud 0."]
    assert str(extract) == "Tale\n\nOne\n\nQuiet 4.\n\nTwo\n\nLoud 0."
    assert extract.to_markdown() == "# Tale\n\n## One\n\nQuiet 4.\n\n## Two\n\nLoud 0.\n"
    # No character of a text is markup.
    marked = made(("*Part* [1]", [("1. He said: <b> & # `x`", 0.5), ("- She\nleft.", 0.6)]))
    expected = "## \\*Part\\* \\[1\\]\n\n1\\. He said: \\<b\\> \\& \\# \\`x\\`\n\n\\- She left.\n"
    assert marked.extract(2).to_markdown() == expected


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=7), min_size=1, max_size=9),
    st.integers(1, 80),
    st.data(),
)
def test_budgets_of_extracts(windows, budget, data):
    words = st.integers(1, 4).map(lambda count: "word " * count)
    chapters = [("Chapter", [(data.draw(words), score) for score in window]) for window in windows]
    result = made(*chapters)
    indices = [unit.index for unit in result.extract(budget)]
    assert len(indices) == min(budget, sum(map(len, windows)))
    assert indices == sorted(set(indices))
    if budget >= 4:
        assert 0 < sum(len(unit.text.split()) for unit in result.extract(words=budget)) <= budget


def test_work_is_proportional_to_the_number_of_chapters():
    """Calls of functions are counted, since time depends on what else the machine does."""

    def work(size: int) -> int:
        chapters, profile = [("One", [("It rained.", 0.5)])] * size, cProfile.Profile()

        def use() -> None:
            result = made(*chapters)
            result.json()
            result.extract(1), result.extract(words=2)
            list(write_results(result, "html"))

        profile.runcall(use)
        return pstats.Stats(profile).total_calls

    work(1)  # the first page of a process compiles the templates
    assert work(400) < 5 * work(100)


def test_lengths_of_extracts_are_checked():
    result = made(("One", [("It rained all night.", 0.5)]))
    for options in ({"k": 1, "share": 0.5}, {"k": 0}, {"share": 2}, {"words": 0}, {"words": 3}):
        with pytest.raises(ValueError, match="not both|choose a|at most|at least|allow more"):
            result.extract(**options)

"""`score_book`: chapters and scenes equal to a naive reference, sentences equal to
`score_stories`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import narrative_twins
from narrative_twins import StoryEncoder, StoryError, score_book, score_stories
from narrative_twins.salience.books.units import LEVELS, scores_of
from narrative_twins.stories.story import Story

from support.models import FAMILIES, encoder_of, small
from support.strategies import sentence
from support.tales import TALE, book_of, naive_scores, token_states

THREE = ["deletion", "disruption", "summarization"]


def texts(unit):
    return (
        [leaf.text for leaf in unit.children]
        if unit.level == "scene"
        else sum(map(texts, unit.children), [])
    )


def assert_scores(units, states):
    for name, expected in naive_scores(states).items():
        assert scores_of(units)[name] == pytest.approx(expected, abs=1e-5), name


@pytest.mark.parametrize("positions", [512, 14], ids=["fits", "several passes"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_chapters_and_scenes_equal_the_oracle(kind, positions):
    model, tokenizer = encoder_of(kind)
    encoder = StoryEncoder(model, tokenizer, context_tokens=positions)
    result = score_book(TALE, encoder, approximate="one-pass")
    states = [
        [token_states(model, tokenizer, texts(scene), positions - 2) for scene in chapter.children]
        for chapter in result.chapters
    ]
    assert result.operations("chapter") == result.operations("scene") == THREE
    assert_scores(result.chapters, [sum(scenes, []) for scenes in states])
    for chapter, scenes in zip(result.chapters, states, strict=True):
        assert_scores(chapter.children, scenes)


@pytest.mark.parametrize("options", [{}, {"approximate": "one-pass"}, {"max_shifts": 1}], ids=str)
def test_sentences_equal_those_of_score_stories_in_the_windows_of_scenes(options, encoder):
    chapter = [
        "Chapter 1",
        *["Nadia ran. It rained on the mill."] * 8,
        "***",
        *["She swam alone."] * 12,
    ]
    result = score_book(book_of(chapter), encoder, levels="sentence", **options)
    sentences, windows, start = [], [], 0
    for scene in result.units("scene"):
        assert scene.windows == Story.parse([leaf.text for leaf in scene.children]).windows
        windows += [(start + lo, start + hi) for lo, hi in scene.windows]
        sentences += [leaf.text for leaf in scene.children]
        start = len(sentences)
    assert len(result.units("scene")) == 2 and len(windows) == 4
    (expected,) = score_stories([{"sentences": sentences, "windows": windows}], encoder, **options)
    assert scores_of(result.units("sentence")) == {
        name: list(found) for name, found in expected.scores.items()
    }


def test_scores_of_a_level_do_not_depend_on_the_others(encoder):
    complete = score_book(TALE, encoder)
    assert complete.operations("sentence") == [
        "deletion",
        "shifting",
        "disruption",
        "summarization",
    ]
    for level in LEVELS:
        alone = score_book(TALE, encoder, levels=[level])
        assert alone.levels == (level,)
        assert scores_of(alone.units(level)) == scores_of(complete.units(level))


def test_one_chapter_of_one_sentence(encoder):
    result = score_book(book_of(["", "Nadia ran."]), encoder)
    for level in LEVELS:
        (unit,) = result.units(level)
        assert unit.scores["deletion"] == unit.scores["disruption"] == 0
        assert unit.scores["summarization"] == pytest.approx(1, abs=1e-6) or level == "sentence"
    assert result.chapters[0].name == "chapter 1" and result.top(1)[0].text == "Nadia ran."


@given(
    st.lists(
        st.lists(st.one_of(sentence, st.just("***")), min_size=1, max_size=8),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=25)
def test_the_tree_has_every_sentence_once_in_order_and_no_heading(chapters):
    book = book_of(
        *([f"Chapter {number}", "Nadia ran.", *found] for number, found in enumerate(chapters))
    )
    result = score_book(book, small(), approximate="one-pass")
    expected = [
        text
        for found in chapters
        for text in ["Nadia ran.", *(part for part in found if part != "***")]
    ]
    sentences = result.units("sentence")
    assert [unit.text for unit in sentences] == expected
    for level in LEVELS:
        units = result.units(level)
        assert [unit.index for unit in units] == list(range(len(units)))
        assert all(a.span[1] <= b.span[0] for a, b in zip(units, units[1:], strict=False))
        assert all(
            unit.level == level and np.isfinite(list(unit.scores.values())).all() for unit in units
        )
    for unit in [*result.chapters, *result.units("scene")]:
        assert unit.children and unit.span == (unit.children[0].span[0], unit.children[-1].span[1])
    for unit in sentences:
        assert book.text[slice(*unit.span)] == unit.text
    for scene in result.units("scene"):
        assert [i for lo, hi in scene.windows for i in range(lo, hi)] == list(
            range(len(scene.children))
        )
    headings = [span for chapter in book.chapters if (span := chapter.heading)]
    assert not [
        unit for unit in sentences for lo, hi in headings if unit.span[0] < hi and lo < unit.span[1]
    ]


def test_only_sums_of_scenes_are_kept(monkeypatch):
    """The encoder returns one vector per scene, and chapters keep one vector each."""
    encoder, shapes = small(), []
    encode = StoryEncoder.encode
    monkeypatch.setattr(
        StoryEncoder,
        "encode",
        lambda self, texts, *rest: shapes.append(len(texts)) or encode(self, texts, *rest),
    )
    book = book_of(
        *([f"Chapter {number}", *["Nadia ran. It rained."] * 100] for number in range(3))
    )
    score_book(book, encoder, levels=["chapter"])
    scenes = [
        len(chapter.children) for chapter in score_book(book, encoder, levels=["scene"]).chapters
    ]
    assert scenes == [3, 3, 3] and shapes == scenes * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": []}, "no level to score"),
        ({"levels": "page"}, "level 'page' is unknown; choose from chapter, scene, sentence"),
        ({"operations": "shifting"}, "shifting: not available at the level 'chapter'"),
        (
            {"operations": "shifting", "approximate": "one-pass", "levels": "sentence"},
            "shifting has no one-pass form",
        ),
        ({"approximate": "two-pass"}, "choose 'one-pass' or None"),
        ({"approximate": "one-pass", "max_shifts": 2}, "has no effect"),
        ({"operations": "nonsense"}, "nonsense"),
    ],
    ids=str,
)
def test_invalid_arguments_are_refused(options, message, encoder):
    with pytest.raises(ValueError, match=message):
        score_book(TALE, encoder, **options)


def test_first_token_pooling_scores_sentences_only():
    encoder = small(pooling="first")
    with pytest.raises(ValueError, match="need mean pooling"):
        score_book(TALE, encoder)
    assert score_book(TALE, encoder, levels="sentence").operations("sentence")


def test_a_chapter_that_can_not_be_scored_is_named(encoder):
    with pytest.raises(StoryError, match="a.txt"):
        score_book("a.txt", encoder)
    book = book_of(["Chapter 1", "Nadia ran."], ["Chapter 2", "Now."])
    with pytest.raises(StoryError, match="Chapter 2: .*Now"):
        score_book(book, Refusing(encoder))


class Refusing(StoryEncoder):
    """An encoder that has no tokens for a word."""

    def __init__(self, encoder):
        self.__dict__ |= encoder.__dict__

    def tokenize(self, sentences):
        if "Now." in sentences:
            raise StoryError("sentence 0 ('Now.') has no tokens")
        return super().tokenize(sentences)


def test_progress_counts_sentences(encoder):
    told = []
    score_book(TALE, encoder, progress=told.append)
    assert told == sorted(told) and told[-1] == pytest.approx(11)

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_book(TALE, encoder, progress=stop)


def test_a_file_is_read(tmp_path, encoder):
    path = tmp_path / "tale.txt"
    path.write_text(TALE.text)
    result = narrative_twins.score_book(path, encoder, levels="chapter")
    assert [chapter.text for chapter in result.chapters] == [TALE.heading(i) for i in range(3)]

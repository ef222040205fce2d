"""`score_book`: chapters and scenes equal to a naive reference, sentences equal to
`score_stories`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, StoryEncoder, StoryError, score_book, score_stories
from narrative_twins.books.result import BookSalience
from narrative_twins.books.table import LEVELS
from narrative_twins.stories.story import Story

from support.models import encoder_of, small
from support.scoring import FixedScores
from support.strategies import sentence
from support.tales import TALE, book_of, naive_scores, token_states

EXACT = {"approximate": None}


def assert_scores(units, inside, states, similarity):
    lo, hi = inside
    for name, expected in naive_scores(states, similarity).items():
        assert units.scores[name][lo:hi] == pytest.approx(expected, abs=1e-5), name


@pytest.mark.parametrize(
    ("kind", "positions", "similarity"),
    [("bert", 512, "cosine"), ("modernbert", 14, "cosine"), ("bert", 512, "euclidean")],
)
def test_chapters_and_scenes_equal_the_oracle(kind, positions, similarity):
    model, tokenizer = encoder_of(kind)
    encoder = StoryEncoder(model, tokenizer, context_tokens=positions)
    result = score_book(TALE, encoder, similarity=similarity)
    assert BookSalience.from_dict(result.json()).similarity == result.similarity == similarity
    assert list(result.at("chapter").scores) == list(result.at("scene").scores) == list(OPERATIONS)
    chapters = []
    for chapter in result.chapters:
        ranges = result.scenes.inside[slice(*chapter.inside)]
        texts = [result.sentences.texts[slice(*span)] for span in ranges]
        scenes = [token_states(model, tokenizer, text, positions - 2) for text in texts]
        assert_scores(result.scenes, chapter.inside, scenes, similarity)
        chapters.append(sum(scenes, []))
    assert_scores(result.chapters, (0, 3), chapters, similarity)


@pytest.mark.parametrize(
    "options", [{"approximate": "one-pass", "similarity": "dot"}, EXACT], ids=str
)
def test_sentences_equal_those_of_score_stories_in_the_windows_of_scenes(options, encoder):
    sea, mill = "Nadia ran. It rained on the mill.", "She swam alone."
    chapter = ["Chapter 1", *[sea] * 8, "***", *[mill] * 12]
    result = score_book(book_of(chapter), encoder, levels="sentence", **options)
    scored = result.at("sentence")
    windows = [
        (lo + first, lo + stop)
        for lo, hi in result.scenes.inside
        for first, stop in Story.parse(scored.texts[lo:hi]).windows
    ]
    assert len(result.scenes) == 2 and len(windows) == 4 and scored.windows == windows
    story = {"sentences": scored.texts, "windows": scored.windows}
    (expected,) = score_stories([story], encoder, **options)
    assert scored.scores == expected.scores and result.approximate == expected.approximate


def test_scores_of_a_level_do_not_depend_on_the_others(encoder):
    complete = score_book(TALE, encoder)
    assert complete.approximate == "one-pass", "the default"
    assert list(complete.at("sentence").scores) == list(OPERATIONS)
    for level in LEVELS:
        alone = score_book(TALE, encoder, levels=[level])
        assert alone.levels == (level,)
        assert alone.at(level).scores == complete.at(level).scores
        assert alone.approximate == (None if level != "sentence" else "one-pass")


parts = st.lists(st.one_of(sentence, st.just("***")), min_size=1, max_size=8)


@given(st.lists(parts, min_size=1, max_size=4))
@settings(max_examples=8)
def test_the_tree_has_every_sentence_once_in_order_and_no_heading(chapters):
    written = [
        [f"Chapter {number}", "Nadia ran.", *scored] for number, scored in enumerate(chapters)
    ]
    book = book_of(*written)
    result = score_book(book, small())
    expected = [part for scored in written for part in scored[1:] if part != "***"]
    assert [unit.text for unit in result.units("sentence")] == expected
    for level in LEVELS:
        units = result.units(level)
        assert [unit.index for unit in units] == list(range(len(units)))
        assert all(a.span[1] <= b.span[0] for a, b in zip(units, units[1:], strict=False))
        assert np.isfinite([list(unit.scores.values()) for unit in units]).all()
    for unit in [*result.chapters, *result.scenes]:
        inside = result.units(LEVELS[LEVELS.index(unit.level) + 1])[slice(*unit.inside)]
        assert inside and unit.span == (inside[0].span[0], inside[-1].span[1])
    for unit in result.units("sentence"):
        assert book.text[slice(*unit.span)] == unit.text


REFUSED = [
    ({"levels": []}, "no level: choose levels from chapter"),
    ({"levels": "page"}, "page: choose levels from chapter, scene, sentence"),
    ({"encoder": small(pooling="first")}, "need mean pooling; choose levels='sentence', and"),
    ({"encoder": small(pooling="first"), "levels": "sentence"}, "='one-pass' needs mean pooling"),
    (EXACT | {"operations": FixedScores([0.0])}, "fixed has no one-pass form, by which chapters"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_invalid_arguments_are_refused(options, message, encoder):
    with pytest.raises(ValueError, match=message):
        score_book(TALE, **{"encoder": encoder} | options)


def test_progress_counts_sentences_of_a_file_and_a_bad_chapter_is_named(
    encoder, tmp_path, monkeypatch
):
    (tmp_path / "tale.txt").write_text(TALE.text)
    seen = []
    result = score_book(tmp_path / "tale.txt", encoder, progress=seen.append)
    assert [chapter.text for chapter in result.chapters] == [TALE.heading(i) for i in range(3)]
    assert seen == sorted(seen) and seen[-1] == pytest.approx(11)

    def stop(*_):
        raise StoryError("it has no tokens")

    with pytest.raises(StoryError, match="a.txt"):
        score_book("a.txt", encoder)
    with pytest.raises(StoryError, match="Chapter 1: The Map: it has no tokens"):
        score_book(TALE, encoder, progress=stop)

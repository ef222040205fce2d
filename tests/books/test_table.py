"""Scenes of chapters: marked breaks, and long chapters divided where paragraphs begin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import Story, StoryError, split_sentences
from narrative_twins.books.plain_text import plain_book
from narrative_twins.books.table import SCENE, book_table, scene_spans

from support.tales import book_of


def test_marked_breaks_begin_scenes():
    book = book_of(
        ["Chapter 1", "Nadia ran. It rained.", "***", "She slept.", "He woke."],
        ["Chapter 2", "It was over."],
    )
    table = book_table(book)
    assert table.scenes.inside == [(0, 2), (2, 4), (4, 5)]
    assert table.chapters.inside == [(0, 2), (2, 3)]
    assert table.sentences.texts[:2] == ["Nadia ran.", "It rained."]


def test_a_break_before_the_name_of_a_speaker_begins_a_scene():
    book = book_of(["Chapter 1", "RUNA.", "It rained.", "***", "RUNA.", "She slept.", "He woke."])
    assert book_table(book).scenes.inside == [(0, 1), (1, 3)]


def test_a_long_chapter_is_divided_evenly_where_paragraphs_begin():
    assert scene_spans(4 * SCENE, [0]) == tuple((i * SCENE, (i + 1) * SCENE) for i in range(4))
    assert scene_spans(2 * SCENE + 2, [0, 40, SCENE + 3]) == ((0, SCENE + 3), (SCENE + 3, 122))


@given(st.integers(1, 700), st.integers(1, 80), st.sets(st.integers(1, 699)))
def test_scenes_partition_a_chapter_and_none_is_huge(count, step, breaks):
    marked = sorted(edge for edge in breaks if edge < count)
    spans = scene_spans(count, range(0, count, step), marked)
    assert [i for lo, hi in spans for i in range(lo, hi)] == list(range(count))
    assert {0, *marked} <= {lo for lo, _ in spans}
    assert all(0 < hi - lo <= 2 * SCENE + 20 for lo, hi in spans)


def test_sentences_stay_in_their_paragraphs():
    text = "Chapter 1\n\nIt rained. Nadia ran\n\nhome. She slept\n\nChapter 2\n\nIt snowed."
    book = plain_book(text)
    table = book_table(book)
    spans = table.sentences.spans
    assert table.sentences.texts == ["It rained.", "Nadia ran", "home.", "She slept", "It snowed."]
    assert [text[slice(*span)] for span in spans] == table.sentences.texts
    assert table.sentences.starts == [0, 2, 4] and table.chapters.inside == [(0, 1), (1, 2)]
    assert book_table(book, "paragraphs").sentences.spans == book.paragraphs
    # A function splits paragraphs too, so that no heading becomes a sentence.
    assert book_table(book, split_sentences) == table
    story = Story.parse({"id": "boats", "text": book}, windows=[2, 3])
    assert (story.id, story.text, story.windows) == ("boats", text, ((0, 2), (2, 5)))
    assert list(story.spans) == spans
    with pytest.raises(StoryError, match="the splitter lost text at character 11: 'It rained"):
        book_table(book, lambda paragraph: [])

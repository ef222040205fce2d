"""Books in plain text: chapters, paragraphs, breaks and verse, without the licence of Project
Gutenberg."""

from __future__ import annotations

import pytest

from narrative_twins import Story, StoryError, split_sentences
from narrative_twins.stories.books.plain import plain_book
from narrative_twins.stories.books.reading import book_sentences, read_book

from support.books import shown

GUTENBERG = """The Project Gutenberg eBook of The Boats

This eBook is for the use of anyone anywhere.

Title: The Boats
  A Tale

Author: Nobody

{start}

Produced by Nobody

CONTENTS

CHAPTER I. The Sea
CHAPTER II. The Land

CHAPTER I.
The Sea

It rained all day and all night over the wide sea, and the boats that were out
had no light.

[Illustration: a boat]

“Go,” he said.

CHAPTER II.
The Land

They came home.

{end}

Section 1. General Terms of Use. You may copy it.
"""


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (
            "*** START OF THE PROJECT GUTENBERG EBOOK THE BOATS ***",
            "*** END OF THE PROJECT GUTENBERG EBOOK ***",
        ),
        (
            "***START OF THIS PROJECT GUTENBERG EBOOK\nTHE BOATS***",
            "End of the Project Gutenberg EBook of The Boats",
        ),
        (
            "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
            "End of Project Gutenberg's The Boats",
        ),
        ("*** START OF THE PROJECT GUTENBERG EBOOK ***", "*** START: FULL LICENSE ***"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_licence_of_project_gutenberg_is_left_out(tmp_path, start, end, newline):
    file = tmp_path / "boats.txt"
    file.write_bytes(
        GUTENBERG.format(start=start, end=end).replace("\n", newline).encode("utf-8-sig")
    )
    book = read_book(file)
    assert book.title == "The Boats A Tale"
    first = (
        "It rained all day and all night over the wide sea, and the boats that were out\nhad no"
        " light."
    )
    assert shown(book) == [
        ("CHAPTER I. The Sea", [first.replace("\n", newline), "“Go,” he said."], []),
        ("CHAPTER II. The Land", ["They came home."], []),
    ]
    assert "Gutenberg" not in book.text and "Terms of Use" not in book.text


def test_what_only_looks_like_the_licence_is_kept():
    lines = ["End of Project Gutenberg's earlier volume.", "It rained. " * 5_000]
    assert shown(plain_book("\n\n".join(lines))) == [(None, [line.strip() for line in lines], [])]


def test_entries_of_contents_are_no_chapters():
    contents = "\n".join(f"Chapter {number}" for number in range(1, 4))
    chapters = "\n\n".join(f"Chapter {number}\n\nIt rained." for number in range(1, 4))
    expected = [(f"Chapter {number}", ["It rained."], []) for number in range(1, 4)]
    assert shown(plain_book(f"{contents}\n\n{chapters}")) == expected
    assert shown(plain_book(f"Contents\n\n{contents}\n\n{chapters}")) == expected
    # What stands between the contents and the first chapter belongs to none of them.
    assert shown(plain_book(f"{contents}\n\nFor Nadia.\n\n{chapters}")) == [
        (None, ["For Nadia."], []),
        *expected,
    ]
    # Entries without a form by which they are headings.
    assert shown(plain_book(f"CONTENTS\n\nThe sea, 3\nThe land, 5\n\n{chapters}")) == expected


def test_a_part_and_its_first_chapter_are_one_heading():
    lines = [
        "PART ONE",
        "CHAPTER 1",
        "The Sea",
        "It rained.",
        "CHAPTER 2",
        "It snowed.",
        "PART TWO",
        "CHAPTER 1",
        "End.",
    ]
    text = "\n\n".join(lines)
    assert [heading for heading, _, _ in shown(plain_book(text))] == [
        "PART ONE CHAPTER 1 The Sea",
        "CHAPTER 2",
        "PART TWO CHAPTER 1",
    ]


def test_text_before_the_first_heading_is_a_chapter_without_one():
    book = plain_book("It rained.\n\nChapter 1\nIt snowed.\n")
    assert shown(book) == [(None, ["It rained."], []), ("Chapter 1", ["It snowed."], [])]
    assert book.title is None


def test_a_title_page_is_no_chapter():
    book = plain_book(
        "THE BOATS\n\nby Nobody\n\nChapter 1\n\nIt rained.\n\nChapter 2\n\nIt was dry.\n"
    )
    assert [book.heading(at) for at in range(len(book.chapters))] == ["Chapter 1", "Chapter 2"]
    assert len(plain_book("THE BOATS\n\nby Nobody\n").chapters) == 1, "there is nothing else"


@pytest.mark.parametrize("mark", ["* * *", "***", "#", "---", "⁂", "      *       *       *"])
def test_lines_of_marks_are_breaks(mark):
    text = (
        f"{mark}\n\nIt rained.\n\n{mark}\n{mark}\n\nIt snowed and\nit hailed.\n{mark}\nNadia"
        f" ran.\n\n{mark}"
    )
    book = plain_book(text)
    assert shown(book) == [
        (None, ["It rained.", "It snowed and\nit hailed.", "Nadia ran."], [1, 2])
    ]


def test_more_blank_lines_than_elsewhere_are_breaks():
    gaps = ["\n\n", "\n\n", "\n\n\n", "\n\n", "\n\n\n\n"]
    paragraphs = [f"It rained {number}." for number in range(6)]
    text = paragraphs[0] + "".join(
        gap + paragraph for gap, paragraph in zip(gaps, paragraphs[1:], strict=True)
    )
    assert shown(plain_book(text)) == [(None, paragraphs, [])]  # two of five is no rare mark
    more = "\n\n" + "\n\n".join(paragraphs)
    assert shown(plain_book(text + more)) == [(None, paragraphs * 2, [3, 5])]
    # Before and after headings there are more anyway.
    assert shown(plain_book(f"{more}\n\n\n\nChapter 1\n\n\n\nIt rained."))[0][2] == []


def test_long_lines_are_paragraphs():
    line = (
        "It rained on the boats, and on the harbour behind them, and nobody went out. " * 2
        + "Nadia slept."
    )
    book = plain_book(
        f"Chapter 1\n{line} {line}\n{line}\n\n{line} {line}\n{line}\n{line}\n{line}\n"
    )
    assert shown(book)[0][1] == [f"{line} {line}", line, f"{line} {line}", line, line, line]
    assert shown(book)[0][2] == [2]


def test_lines_of_verse_are_paragraphs():
    prose = (
        "It rained all day and all night over the wide sea, and the boats that were out\nhad no"
        " light. He was gone."
    )
    verse = ["The sea was grey,", "“And wide the sky,”", "_Sang they all._"]
    dialogue = (
        "He came to the harbour of the town that nobody has ever seen by day, and\nNadia ran."
    )
    book = plain_book(
        "\n\n".join([prose, "\n".join(f"    {line}" for line in verse), dialogue, prose])
    )
    assert shown(book) == [(None, [prose, *verse, dialogue, prose], [])]


@pytest.mark.parametrize("text", ["", " \n\n", "Chapter 1\n\nChapter 2\n", "* * *", "\x01\n"])
def test_a_book_without_text_is_an_error(tmp_path, text):
    (tmp_path / "book.txt").write_text(text)
    with pytest.raises(
        StoryError, match=r"book\.txt: has no text of a story; check that it is complete$"
    ):
        read_book(tmp_path / "book.txt")


def test_sentences_stay_in_their_paragraphs():
    text = "Chapter 1\n\nIt rained. Nadia ran\n\nhome. She slept\n\nChapter 2\n\nIt snowed."
    book = plain_book(text)
    found = book_sentences(book)
    assert [(*place[:2], text[slice(*place.span)]) for place in found] == [
        (0, 0, "It rained."),
        (0, 0, "Nadia ran"),
        (0, 1, "home."),
        (0, 1, "She slept"),
        (1, 0, "It snowed."),
    ]
    assert [place.span for place in book_sentences(book, "paragraphs")] == book.paragraphs
    # A function splits paragraphs too, so that no heading becomes a sentence.
    assert book_sentences(book, split_sentences) == found
    story = Story.parse({"id": "boats", "text": book}, windows=[2, 3])
    assert (story.id, story.text, list(story.spans)) == (
        "boats",
        text,
        [place.span for place in found],
    )
    assert story.windows == ((0, 2), (2, 5))
    assert Story.parse(book, splitter="paragraphs").sentences == (
        "It rained. Nadia ran",
        "home. She slept",
        "It snowed.",
    )
    with pytest.raises(StoryError, match="the splitter lost text at character 11: 'It rained"):
        book_sentences(book, lambda paragraph: [])

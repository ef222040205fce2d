"""Books in plain text: chapters, paragraphs, breaks and verse, without the licence of Project
Gutenberg."""

import pytest

from narrative_twins import Story, StoryError, split_sentences
from narrative_twins.books import book_table, read_book
from narrative_twins.books.plain import plain_book

from support.books import outline

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


FRAMES = """
*** START OF THE PROJECT GUTENBERG EBOOK A ***|*** END OF THE PROJECT GUTENBERG A ***
***START OF THIS PROJECT GUTENBERG EBOOK A***|End of the Project Gutenberg EBook of A
*END*THE SMALL PRINT! FOR PUBLIC DOMAIN*V*END*|End of Project Gutenberg's The Boats
*** START OF THE PROJECT GUTENBERG EBOOK ***|*** START: FULL LICENSE ***
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_licence_of_project_gutenberg_is_left_out(tmp_path, newline):
    for frame in FRAMES.strip().split("\n"):
        start, end = frame.replace("EBOOK A***", "EBOOK\nA***").split("|")
        text = GUTENBERG.format(start=start, end=end).replace("\n", newline)
        (tmp_path / "boats.txt").write_bytes(text.encode("utf-8-sig"))
        book = read_book(tmp_path / "boats.txt")
        assert book.title == "The Boats A Tale"
        assert "Gutenberg" not in book.text and "Terms of Use" not in book.text
        first = "It rained all day and all night over the wide sea, and the boats that were out"
        assert outline(book) == (
            f"CHAPTER I. The Sea | {first}\nhad no light. | “Go,” he said."
            " // CHAPTER II. The Land | They came home."
        )


def test_what_only_looks_like_the_licence_is_kept():
    text = "End of Project Gutenberg's earlier volume.\n\n" + "It rained. " * 5_000
    assert outline(plain_book(text)) == f"- | {text.strip()}".replace("\n\n", " | ")


def test_entries_of_contents_are_no_chapters():
    contents = "\n".join(f"Chapter {number}" for number in range(1, 4))
    chapters = "\n\n".join(f"Chapter {number}\n\nIt rained." for number in range(1, 4))
    expected = " // ".join(f"Chapter {number} | It rained." for number in range(1, 4))
    assert outline(plain_book(f"{contents}\n\n{chapters}")) == expected
    # Text between the contents and the first chapter belongs to neither.
    between = plain_book(f"{contents}\n\nFor Nadia.\n\n{chapters}")
    assert outline(between) == f"- | For Nadia. // {expected}"


PARTS = "PART ONE|CHAPTER 1|The Sea|It rained.|CHAPTER 2|It snowed.|PART TWO|CHAPTER 1|End."
PROSE = (
    "It rained all day and all night over the wide sea, and the boats that were out\nhad no light."
)
VERSE = "    The sea was grey,\n    “And wide the sky,”\n    _Sang they all._"
SPEECH = "He came to the harbour of the town that nobody has ever seen by day, and\nNadia ran."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            PARTS.replace("|", "\n\n"),
            "PART ONE CHAPTER 1 The Sea | It rained. // CHAPTER 2 | It snowed."
            " // PART TWO CHAPTER 1 | End.",
        ),
        ("It rained.\n\nChapter 1\nIt snowed.\n", "- | It rained. // Chapter 1 | It snowed."),
        ("THE BOATS\n\nby Nobody\n\nChapter 1\n\nA b.\n", "Chapter 1 | A b."),
        ("THE BOATS\n\nby Nobody\n", "- | THE BOATS | by Nobody"),
        (
            f"{PROSE}\n\n{VERSE}\n\n{SPEECH}\n\n{PROSE}",
            f"- | {PROSE} | The sea was grey, | “And wide the sky,” | _Sang they all._ | {SPEECH}"
            f" | {PROSE}",
        ),
    ],
    ids=["parts", "before", "title page", "title alone", "verse"],
)
def test_chapters_and_paragraphs(text, expected):
    assert outline(plain_book(text)) == expected


@pytest.mark.parametrize("mark", ["* * *", "***", "#", "---", "⁂", "      *       *       *"])
def test_lines_of_marks_are_breaks(mark):
    text = f"{mark}\n\nIt rained.\n\n{mark}\n{mark}\n\nIt snowed and\nit hailed.\n{mark}\nA b.\n\n{mark}"
    assert outline(plain_book(text)) == "- | It rained. | * It snowed and\nit hailed. | * A b."


def test_more_blank_lines_than_elsewhere_are_breaks():
    few = "A 0.\n\nA 1.\n\nA 2.\n\n\nA 3.\n\nA 4.\n\n\n\nA 5."
    assert "*" not in outline(plain_book(few)), "two of five is no rare mark"
    more = "\n\n" + "\n\n".join(f"A {number}." for number in range(6))
    shown = outline(plain_book(few + more))
    assert shown.startswith("- | A 0. | A 1. | A 2. | * A 3. | A 4. | * A 5. | A 0. | A 1.")
    # Before and after headings there are more anyway.
    assert "*" not in outline(plain_book(f"{more}\n\n\n\nChapter 1\n\n\n\nIt rained."))


def test_long_lines_are_paragraphs():
    line = "It rained on the boats, and on the harbour too, and nobody went out. " * 2 + "He slept."
    text = f"Chapter 1\n{line} {line}\n{line}\n\n{line} {line}\n{line}\n{line}\n{line}\n"
    expected = ["Chapter 1", f"{line} {line}", line, f"* {line} {line}", line, line, line]
    assert outline(plain_book(text)).split(" | ") == expected


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

"""Books: long texts with chapters, from files of several formats to a table of scored sentences."""

from narrative_twins.books.blocks import Book as Book
from narrative_twins.books.blocks import Chapter as Chapter
from narrative_twins.books.chapters_and_scenes import BookTable as BookTable
from narrative_twins.books.chapters_and_scenes import book_table as book_table
from narrative_twins.books.reading import read_book as read_book

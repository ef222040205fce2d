"""Books: long texts with chapters, from files of several formats to a table of scored sentences."""

from narrative_twins.books.book import Book as Book
from narrative_twins.books.book import Chapter as Chapter
from narrative_twins.books.reading import read_book as read_book
from narrative_twins.books.table import BookTable as BookTable
from narrative_twins.books.table import book_table as book_table

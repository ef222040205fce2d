"""Stories: sentences in order, their windows, and how story files and books are read."""

from narrative_twins.stories.books.book import Book as Book
from narrative_twins.stories.books.book import Chapter as Chapter
from narrative_twins.stories.books.reading import BookSentence as BookSentence
from narrative_twins.stories.books.reading import book_sentences as book_sentences
from narrative_twins.stories.books.reading import read_book as read_book
from narrative_twins.stories.sentences import find_headings as find_headings

"""Stories: sentences in order, their windows, and how story files and books are read."""

from narrative_twins.stories.books.book import Book as Book
from narrative_twins.stories.books.book import Chapter as Chapter
from narrative_twins.stories.books.reading import BookSentence as BookSentence
from narrative_twins.stories.books.reading import book_sentences as book_sentences
from narrative_twins.stories.books.reading import read_book as read_book
from narrative_twins.stories.reading import InputFormat as InputFormat
from narrative_twins.stories.reading import count_stories as count_stories
from narrative_twins.stories.reading import read_stories as read_stories
from narrative_twins.stories.sentences import SPLITTERS as SPLITTERS
from narrative_twins.stories.sentences import Span as Span
from narrative_twins.stories.sentences import Splitter as Splitter
from narrative_twins.stories.sentences import find_headings as find_headings
from narrative_twins.stories.sentences import split_sentences as split_sentences
from narrative_twins.stories.story import Order as Order
from narrative_twins.stories.story import Story as Story
from narrative_twins.stories.story import StoryError as StoryError
from narrative_twins.stories.story import Window as Window
from narrative_twins.stories.story import Windows as Windows
from narrative_twins.stories.story import even_windows as even_windows
from narrative_twins.stories.story import partition as partition

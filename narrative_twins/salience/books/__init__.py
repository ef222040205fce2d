"""The salience of the parts of a book: chapters, scenes and sentences, by the same operations."""

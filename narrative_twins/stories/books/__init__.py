"""Books: long texts with chapters, how they are read from files of several formats, and their
scenes."""

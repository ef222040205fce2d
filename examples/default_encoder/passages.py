"""Passages of tales and film plots with marks: how many of nine readers would mark each sentence as
carrying the story, as judged by a language model. The text is in a folder of research data."""

import hashlib
import json
from pathlib import Path

MARKS = Path(__file__).parent / "prose_marks.jsonl"
READERS = 9


def is_held_out(name: str) -> bool:
    """Whether a story or work is in the half that is held out, by a hash of its id."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def judged_passages(data: Path, held_out: bool) -> list[dict[str, list]]:
    """The passages as `story`, with the share of readers for each sentence as `labels`. Those of
    every second work of `fairytaleqa.jsonl` are held out, to choose settings by. Ends the program
    if a text is not the one that was read.
    """
    works: dict[str, dict[str, dict]] = {}
    passages = []
    for marked in map(json.loads, MARKS.read_text(encoding="utf-8").splitlines()):
        file, work, marks, start = (marked[name] for name in ("file", "id", "marks", "start"))
        if file not in works:
            lines = (data / file).read_text(encoding="utf-8").splitlines()
            works[file] = {row["id"]: row for row in map(json.loads, lines)}
        sentences = works[file][work][marked["column"]][start : start + len(marks)]
        story = [" ".join(sentence.split()) for sentence in sentences]
        if hashlib.sha256("\n".join(story).encode()).hexdigest()[:12] != marked["text"]:
            raise SystemExit(
                f"{data / file}, {work}: not the text that the marks of {MARKS.name} are for"
            )
        if held_out == (file == "fairytaleqa.jsonl" and is_held_out(work)):
            passages.append({"story": story, "labels": [mark / READERS for mark in marks]})
    return passages

"""Passages of tales, film plots and summaries with marks: how many of nine readers would mark each
sentence as carrying the story, as judged by a language model. The text is in a folder of research
data.

    python examples/default_encoder/passages.py

prints how many passages there are, and how far two judgements of the same passage agree.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path
from statistics import mean

from narrative_twins.evaluation.metrics import spearman

MARKS = Path(__file__).parent / "prose_marks.jsonl"
READERS = 9


def is_held_out(name: str) -> bool:
    """Whether a story or work is in the half that is held out, by a hash of its id."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def read_marks() -> list[dict]:
    """The rows of the file of marks: where the text of a passage is, its `marks`, and those of a
    second judgement as `again`, which every tenth has."""
    return list(map(json.loads, MARKS.read_text(encoding="utf-8").splitlines()))


def judged_passages(data: Path, held_out: bool) -> list[dict[str, list]]:
    """The passages as `story`, with the share of readers for each sentence as `labels`. Those of
    every second work of `fairytaleqa.jsonl` are held out, to choose settings by. Ends the program
    if a text is not the one that was read.
    """
    works: dict[str, dict[str, dict]] = {}
    passages = []
    for marked in read_marks():
        file, work, marks, start = (marked[name] for name in ("file", "id", "marks", "start"))
        if file not in works:
            lines = (data / file).read_text(encoding="utf-8").splitlines()
            works[file] = {row["id"]: row for row in map(json.loads, lines)}
        sentences = works[file][work][marked["column"]]
        if "telling" in marked:  # one of several people's
            sentences = sentences[marked["telling"]]["sentences"]
        passage = sentences[start : start + len(marks)]
        story = [" ".join(sentence.split()) for sentence in passage]
        if hashlib.sha256("\n".join(story).encode()).hexdigest()[:12] != marked["text"]:
            raise SystemExit(
                f"{data / file}, {work}: not the text that the marks of {MARKS.name} are for"
            )
        if held_out == (file == "fairytaleqa.jsonl" and is_held_out(work)):
            passages.append({"story": story, "labels": [mark / READERS for mark in marks]})
    return passages


def main() -> None:
    rows = read_marks()
    sentences = sum(len(row["marks"]) for row in rows)
    print(f"{len(rows):,} passages, {sentences:,} sentences")
    for file, count in Counter(row["file"] for row in rows).most_common():
        print(f"{count:7,} of {file}")
    twice = [row for row in rows if "again" in row]
    agreement = mean(spearman(row["marks"], row["again"]) for row in twice)
    print(f"{len(twice)} passages were judged twice: Spearman {agreement:.3f}, mean over passages")


if __name__ == "__main__":
    main()

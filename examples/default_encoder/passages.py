"""Passages of prose with marks: how many of nine readers would mark each sentence as carrying the
story, as judged by a language model. The text of tales, film plots and summaries is in a folder of
research data.

    python examples/default_encoder/passages.py

prints how many passages there are, and how far two judgements of the same passage agree.
"""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from statistics import mean

from narrative_twins.evaluation.metrics import spearman

MARKS = Path(__file__).parent / "prose_marks.jsonl"
TEXTS = Path(__file__).parent / "prose_texts.jsonl"
"""Texts with their marks, written for training by a language model, in the public domain (CC0)."""
READERS = 9
PHRASE = 12
"""Words that two texts share only if they are of the same work, such as one tale in two books."""


def is_held_out(name: str) -> bool:
    """Whether a story or work is in the half that is held out, by a hash of its id."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def read_marks() -> list[dict]:
    """All passages with their `marks`, and where their text is: the `story` itself, or a part of a
    `file`. Some have those of a second judgement as `again`."""
    lines = [line for file in (MARKS, TEXTS) for line in file.read_text("utf-8").splitlines()]
    return list(map(json.loads, lines))


def judged_passages(data: Path, held_out: bool) -> list[dict[str, list]]:
    """The passages as `story`, with the share of readers for each sentence as `labels`. Those of
    every second work of `fairytaleqa.jsonl` are held out, to choose settings by; other works that
    share text with them are left out. Ends the program if a text is not the one that was read.
    """
    works: dict[Path, dict] = {}
    kept, held = [], []
    for marked in read_marks():
        story = marked["story"] if "story" in marked else _text(marked, data, works)
        passage = {"story": story, "labels": [mark / READERS for mark in marked["marks"]]}
        tale = marked.get("file") == "fairytaleqa.jsonl"
        if tale and is_held_out(marked["id"]):
            held.append(passage)
        else:
            kept.append((marked.get("id", ""), passage))
    if held_out:
        return held
    phrases = set().union(*(_phrases(passage["story"]) for passage in held))
    known = {name for name, passage in kept if _phrases(passage["story"]) & phrases}
    return [passage for name, passage in kept if name not in known]


def _phrases(story: list[str]) -> set[tuple[str, ...]]:
    """All sequences of `PHRASE` words."""
    words = re.findall(r"\w+", " ".join(story).lower())
    return {tuple(words[i : i + PHRASE]) for i in range(len(words) - PHRASE + 1)}


def _text(marked: dict, data: Path, works: dict[Path, dict]) -> list[str]:
    """The sentences that the marks of a row are for; files that were read are kept in `works`."""
    file, start = data / marked["file"], marked["start"]
    if file not in works:
        rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        works[file] = {row["id"]: row for row in rows}
    sentences = works[file][marked["id"]][marked["column"]]
    if "telling" in marked:  # one of several people's
        sentences = sentences[marked["telling"]]["sentences"]
    passage = sentences[start : start + len(marked["marks"])]
    story = [" ".join(sentence.split()) for sentence in passage]
    if hashlib.sha256("\n".join(story).encode()).hexdigest()[:12] != marked["text"]:
        raise SystemExit(
            f"{file}, {marked['id']}: not the text that the marks of {MARKS.name} are for"
        )
    return story


def main() -> None:
    rows = read_marks()
    sentences = sum(len(row["marks"]) for row in rows)
    print(f"{len(rows):,} passages, {sentences:,} sentences")
    for file, count in Counter(row.get("file", TEXTS.name) for row in rows).most_common():
        print(f"{count:7,} of {file}")
    twice = [row for row in rows if "again" in row]
    agreement = mean(spearman(row["marks"], row["again"]) for row in twice)
    print(f"{len(twice)} passages were judged twice: Spearman {agreement:.3f}, mean over passages")


if __name__ == "__main__":
    main()

"""Measure the default sentence splitter on prose with direct speech and headings:

    python benchmarks/splitters.py

The passages of `benchmarks/dialogue` are split in their paragraphs. The rules of the splitter were
written together with `gold.txt`; `held_out.txt` was written before them and only measured. Prints
the F1 of sentence ends and the share of passages without an error. The end of a heading counts as
the end of a sentence.
"""

import re
from pathlib import Path

from narrative_twins import Story
from narrative_twins.stories.headings import find_headings

DIALOGUE = Path(__file__).parent / "dialogue"

Passage = tuple[str, list[str]]
"""A text and its sentences, among which headings count."""


def read_dialogue(name: str) -> list[Passage]:
    """The passages of a file of `benchmarks/dialogue`; its first lines explain the format."""
    _, *parts = (DIALOGUE / name).read_text(encoding="utf-8").split("\n== ")
    passages = []
    for part in parts:
        body = re.sub(r"^@ (.+)$", r"\n\1\n", part.partition("\n")[2], flags=re.M)
        paragraphs = [
            [line.strip() for line in paragraph.splitlines()]
            for paragraph in re.split(r"\n\s*\n", body.strip())
        ]
        text = "\n\n".join(map(" ".join, paragraphs))
        passages.append((text, [line for paragraph in paragraphs for line in paragraph]))
    return passages


def agreement(passages: list[Passage]) -> tuple[float, float]:
    """The F1 of sentence ends, and the share of passages without an error."""
    pairs = []
    for text, sentences in passages:
        spans = *Story.parse(text).spans, *find_headings(text)
        gold = Story.parse({"text": text, "sentences": sentences}).spans
        pairs.append(({end for _, end in spans}, {end for _, end in gold}))
    hits = sum(len(split & gold) for split, gold in pairs)
    f1 = 2 * hits / sum(len(split) + len(gold) for split, gold in pairs)
    return f1, sum(split == gold for split, gold in pairs) / len(pairs)


if __name__ == "__main__":
    for name in ("gold.txt", "held_out.txt"):
        passages = read_dialogue(name)
        print(
            f"{name}: {len(passages)} passages, {sum(len(gold) for _, gold in passages)} sentences"
        )
        f1, correct = agreement(passages)
        print(f"  F1 {f1:.4f}   correct passages {correct:6.1%}")

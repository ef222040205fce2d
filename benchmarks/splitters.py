"""Measure the default sentence splitter on prose with direct speech and headings:

    python benchmarks/splitters.py

The passages of `benchmarks/dialogue` are split in their paragraphs. The rules of the splitter were
written together with `gold.txt`; `held_out.txt` was written before them and only measured. Prints
the F1 of sentence ends and the share of passages without an error. The end of a heading counts as
the end of a sentence.
"""

from collections.abc import Callable
from pathlib import Path

from narrative_twins import Story
from narrative_twins.stories.sentences import find_headings

DIALOGUE = Path(__file__).parent / "dialogue"


def default(text: str) -> list[str]:
    """The sentences and headings of a text, in order, as the package tells them apart."""
    spans = sorted([*Story.parse(text).spans, *find_headings(text)])
    return [text[start:end] for start, end in spans]


def read_dialogue(name: str) -> tuple[list[str], list[list[str]]]:
    """The texts of a file of `benchmarks/dialogue`, and their sentences; its first lines explain
    the format."""
    passages: list[list[list[str]]] = []
    for line in map(str.strip, (DIALOGUE / name).read_text(encoding="utf-8").splitlines()):
        if line.startswith("== "):
            passages.append([[]])
        elif line.startswith("@ "):
            passages[-1] += [[line.removeprefix("@ ")], []]
        elif line and not line.startswith("%"):
            passages[-1][-1].append(line)
        elif passages:
            passages[-1].append([])
    texts = ["\n\n".join(" ".join(part) for part in passage if part) for passage in passages]
    return texts, [[sentence for part in passage for sentence in part] for passage in passages]


def ends(sentences: list[str]) -> set[int]:
    """The positions of sentence ends, counted in characters without white space."""
    positions, end = set(), 0
    for sentence in sentences:
        end += len("".join(sentence.split()))
        positions.add(end)
    return positions


def agreement(
    splitter: Callable[[str], list[str]], texts: list[str], passages: list[list[str]]
) -> tuple[float, float]:
    """The F1 of sentence ends, and the share of passages without an error."""
    pairs = [
        (ends(splitter(text)), ends(passage)) for text, passage in zip(texts, passages, strict=True)
    ]
    hits = sum(len(split & gold) for split, gold in pairs)
    f1 = 2 * hits / sum(len(split) + len(gold) for split, gold in pairs)
    return f1, sum(split == gold for split, gold in pairs) / len(pairs)


if __name__ == "__main__":
    for name in ("gold.txt", "held_out.txt"):
        texts, passages = read_dialogue(name)
        print(f"{name}: {len(passages)} passages, {sum(map(len, passages))} sentences")
        f1, correct = agreement(default, texts, passages)
        print(f"  F1 {f1:.4f}   correct passages {correct:6.1%}")

"""Compare sentence splitters on stories whose sentences are known (`make splitters`):

    python benchmarks/splitters.py FOLDER

FOLDER contains `tripod_train.json`, `roc_val.json`, `narrative_twins_sample.jsonl` and
`narrative_twins_long.jsonl`; missing files are skipped. Sentences are joined by a space and split
again. The passages in `benchmarks/dialogue`, prose with direct speech and headings, are split in
their paragraphs; the rules of the default splitter were written together with `gold.txt`, and
`held_out.txt` was written before them and only measured. Prints the F1 of sentence ends, the share
of stories without an error, and the seconds it took. The end of a heading counts as the end of a
sentence.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import syntok.segmenter

from narrative_twins import Story
from narrative_twins.stories.sentences import find_headings

DIALOGUE = Path(__file__).parent / "dialogue"


def default(text: str) -> list[str]:
    """The sentences and headings of a text, in order, as the package tells them apart."""
    return [
        text[start:end] for start, end in sorted([*Story.parse(text).spans, *find_headings(text)])
    ]


def syntok_alone(text: str) -> list[str]:
    """syntok without the package's rules."""
    sentences = [tokens for paragraph in syntok.segmenter.analyze(text) for tokens in paragraph]
    return [
        text[tokens[0].offset : tokens[-1].offset + len(tokens[-1].value)] for tokens in sentences
    ]


def splitters() -> dict[str, Callable[[str], list[str]]]:
    """The splitters to compare, by name."""
    import nupunkt
    import pysbd

    return {
        "default": default,
        "syntok": syntok_alone,
        "pysbd": pysbd.Segmenter(language="en", clean=False).segment,
        "nupunkt": nupunkt.sent_tokenize,
    }


def read(path: Path) -> list[list[str]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return [[s for s in row["sentences"] if s.strip()] for row in json.loads(text).values()]
    rows = [json.loads(line)["twin"] for line in text.splitlines()]
    return [
        row if isinstance(row[0], str) else [s for window in row for s in window] for row in rows
    ]


def read_passages(path: Path) -> list[list[list[str]]]:
    """The paragraphs of each passage of a file of `benchmarks/dialogue`, as lists of sentences; see
    its first lines."""
    passages: list[list[list[str]]] = []
    for line in map(str.strip, path.read_text(encoding="utf-8").splitlines()):
        if line.startswith("== "):
            passages.append([[]])
        elif line.startswith("@ "):
            passages[-1] += [[line.removeprefix("@ ")], []]
        elif line and not line.startswith("%"):
            passages[-1][-1].append(line)
        elif passages:
            passages[-1].append([])
    return [[paragraph for paragraph in passage if paragraph] for passage in passages]


def ends(sentences: list[str]) -> set[int]:
    """The positions of sentence ends, counted in characters without white space."""
    positions, end = set(), 0
    for sentence in sentences:
        end += len("".join(sentence.split()))
        positions.add(end)
    return positions


def agreement(found: list[set[int]], gold: list[set[int]]) -> tuple[float, float]:
    """The F1 of sentence ends, and the share of stories without an error."""
    hits = sum(len(a & b) for a, b in zip(found, gold, strict=True))
    f1 = 2 * hits / (sum(map(len, found)) + sum(map(len, gold)))
    return f1, sum(a == b for a, b in zip(found, gold, strict=True)) / len(gold)


def measure(title: str, texts: list[str], stories: list[list[str]]) -> None:
    """Print a table of all splitters on some texts, whose sentences are `stories`."""
    print(f"{title}: {len(stories)} stories, {sum(map(len, stories))} sentences")
    gold = [ends(story) for story in stories]
    for name, split in splitters().items():
        start = time.perf_counter()
        found = [ends(split(text)) for text in texts]
        seconds = time.perf_counter() - start
        f1, correct = agreement(found, gold)
        print(f"  {name:<8} F1 {f1:.4f}   correct stories {correct:6.1%}   {seconds:6.2f} s")


def read_dialogue(name: str) -> tuple[list[str], list[list[str]]]:
    """The texts of a file of `benchmarks/dialogue`, and their sentences."""
    passages = read_passages(DIALOGUE / name)
    texts = ["\n\n".join(map(" ".join, passage)) for passage in passages]
    return texts, [
        [sentence for paragraph in passage for sentence in paragraph] for passage in passages
    ]


def main() -> None:
    folder = Path(sys.argv[1])
    for name in ("gold.txt", "held_out.txt"):
        measure(f"dialogue/{name}", *read_dialogue(name))
    names = (
        "tripod_train.json",
        "roc_val.json",
        "narrative_twins_sample.jsonl",
        "narrative_twins_long.jsonl",
    )
    for path in (folder / name for name in names):
        if path.exists():
            stories = read(path)
            measure(path.name, [" ".join(story) for story in stories], stories)
        else:
            print(f"skipped: no {path} (set DATA=)")


if __name__ == "__main__":
    main()

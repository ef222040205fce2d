"""Compare sentence splitters on stories whose sentences are known (`make splitters`):

    python benchmarks/splitters.py FOLDER

FOLDER contains `tripod_train.json`, `roc_val.json`, `narrative_twins_sample.jsonl` and `narrative_twins_long.jsonl`;
missing files are skipped. Sentences are joined by a space and split again. Prints the F1 of sentence ends, the share
of stories without an error, and the seconds it took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nupunkt
import pysbd
import syntok.segmenter

from narrative_twins import split_sentences


def syntok_alone(text: str) -> list[str]:
    """syntok without the package's rule for semicolons."""
    sentences = [tokens for paragraph in syntok.segmenter.analyze(text) for tokens in paragraph]
    return [text[tokens[0].offset : tokens[-1].offset + len(tokens[-1].value)] for tokens in sentences]


SPLITTERS: dict[str, Callable[[str], list[str]]] = {
    "default": split_sentences,
    "syntok": syntok_alone,
    "pysbd": pysbd.Segmenter(language="en", clean=False).segment,
    "nupunkt": nupunkt.sent_tokenize,
}


def read(path: Path) -> list[list[str]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return [[s for s in row["sentences"] if s.strip()] for row in json.loads(text).values()]
    rows = [json.loads(line)["twin"] for line in text.splitlines()]
    return [row if isinstance(row[0], str) else [s for window in row for s in window] for row in rows]


def ends(sentences: list[str]) -> set[int]:
    """The positions of sentence ends, counted in characters without white space."""
    positions, end = set(), 0
    for sentence in sentences:
        end += len("".join(sentence.split()))
        positions.add(end)
    return positions


def main() -> None:
    folder = Path(sys.argv[1])
    names = ("tripod_train.json", "roc_val.json", "narrative_twins_sample.jsonl", "narrative_twins_long.jsonl")
    for path in (folder / name for name in names):
        if not path.exists():
            print(f"skipped: no {path} (set DATA=)")
            continue
        stories = read(path)
        print(f"{path.name}: {len(stories)} stories, {sum(map(len, stories))} sentences")
        for name, split in SPLITTERS.items():
            start = time.perf_counter()
            found = [ends(split(" ".join(story))) for story in stories]
            seconds = time.perf_counter() - start
            gold = [ends(story) for story in stories]
            hits = sum(len(a & b) for a, b in zip(found, gold, strict=True))
            f1 = 2 * hits / (sum(map(len, found)) + sum(map(len, gold)))
            correct = sum(a == b for a, b in zip(found, gold, strict=True)) / len(stories)
            print(f"  {name:<8} F1 {f1:.4f}   correct stories {correct:6.1%}   {seconds:6.2f} s")


if __name__ == "__main__":
    main()

"""Texts that nobody judged, labelled by an encoder, the one that is trained or one of more
parameters: by its exact scores and by those in one pass together, which agree with readers more than
either (Hinton, Vinyals and Dean, 2015, "Distilling the Knowledge in a Neural Network"). An encoder
that learns them comes closer to both."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from judged import FILMS, STORIES, digest, other_tales, read_rows
from measuring import precision

from narrative_twins import StoryEncoder
from narrative_twins.salience import score_stories

PASSAGE = 16
"""Number of sentences of a passage of a tale."""


def distilled_stories(teacher: str, data: Path, count: int) -> list[dict[str, list]]:
    """Stories of ROCStories as `story`, with `labels`."""
    return labelled(teacher, texts(data / "roc_stories.jsonl", STORIES, 5, 5)[:count])


def distilled_plots(teacher: str, data: Path, count: int) -> list[dict[str, list]]:
    """The same of film plots of 20 to 70 sentences."""
    return labelled(teacher, texts(data / "wiki_film_plots.jsonl", FILMS, 20, 70)[:count])


def distilled_tales(teacher: str, data: Path, count: int) -> list[dict[str, list]]:
    """The same of passages of fairy tales, of works that are not held out."""
    passages = [
        tale[start : start + PASSAGE]
        for tale in other_tales(data)
        for start in range(0, len(tale) - PASSAGE + 1, PASSAGE)
    ]
    passages.sort(key=digest)
    return labelled(teacher, passages[:count])


def texts(file: Path, judged_file: str, least: int, most: int) -> list[list[str]]:
    """The texts of a file that are not judged and have so many sentences, in an order by hash."""
    judged = {row["id"] for row in read_rows(judged_file)}
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    found = [
        row for row in rows if row["id"] not in judged and least <= len(row["sentences"]) <= most
    ]
    found.sort(key=lambda row: digest([row["id"]]))
    return [[" ".join(sentence.split()) for sentence in row["sentences"]] for row in found]


def labelled(teacher: str, stories: list[list[str]]) -> list[dict[str, list]]:
    """Stories with their scores by both forms as labels: sums of z-scores, as odds."""
    encoder = StoryEncoder.from_pretrained(teacher, dtype=precision(teacher))
    labels = np.zeros(len(stories), object)
    for approximate in (None, "one-pass"):
        results = score_stories(
            stories,
            encoder,
            operations="summarization",
            approximate=approximate,
            on_truncation="ignore",
            progress=True,
        )
        for number, result in enumerate(results):
            scores = np.array(result.scores["summarization"])
            labels[number] = labels[number] + (scores - scores.mean()) / scores.std()
    return [
        {"story": story, "labels": np.exp(own).tolist()}
        for story, own in zip(stories, labels, strict=True)
    ]


def saved(file: Path, make: Callable[[], list[dict[str, list]]]) -> list[dict[str, list]]:
    """Rows from a file that is written on the first call."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(make()), encoding="utf-8")
        part.replace(file)
    rows: list[dict[str, list]] = json.loads(file.read_text(encoding="utf-8"))
    return rows

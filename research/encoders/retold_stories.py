"""Labels for prose without annotators: how much of each sentence other people's tellings of the
same story keep.

    python research/encoders/retold_stories.py squality_plot_twins.jsonl --out retold
    narrative-twins evaluate retold/looked.jsonl --operations summarization --out retold/tables
    python research/encoders/retold_stories.py igorsterner/rocstory-summaries --out retold
    narrative-twins evaluate igorsterner/rocstory-salience --second retold/summaries.jsonl

The rows have `tellings` of one story by several writers, each with `sentences` (as SQuALITY's plot
summaries). The label of a sentence is the mean over the other tellings of its highest similarity
with a sentence there: the cosine of word counts, weighted by how rare a word is among the sentences
of the story, so that names that are everywhere count little. No encoder takes part, so encoders can
be compared by it.

Half of the stories, by a hash of their id, is written to `looked.jsonl`, to choose by, and the
other half to `unseen.jsonl`, to report once. The labels follow shared words: a retelling in other
words looks as if it kept nothing, and long sentences share more words. Read `given position and
length` next to the plain Spearman.

Stories with `summaries` by people, of the test split if there is one, are labelled in the same way
by what the summaries keep, all in `summaries.jsonl`.
"""

import argparse
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from narrative_twins.data import load_story_salience

FEWEST = 8
"""Sentences of the shortest tellings that are used."""


def words(sentence: str) -> Counter[str]:
    """The words of a sentence with their counts; endings of inflection are cut off roughly."""
    return Counter(
        re.sub(r"('s|s|ed|ing)$", "", word) for word in re.findall(r"[a-z']+", sentence.lower())
    )


def weighted(tellings: Sequence[Sequence[str]]) -> list[list[dict[str, float]]]:
    """For each sentence of each telling the weights of its words, of length 1 as a vector."""
    counts = [[words(sentence) for sentence in telling] for telling in tellings]
    total = sum(map(len, counts))
    sentences_with = Counter(
        word for telling in counts for sentence in telling for word in sentence
    )

    def vector(sentence: Counter[str]) -> dict[str, float]:
        weights = {
            word: count * math.log(total / sentences_with[word]) for word, count in sentence.items()
        }
        norm = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        return {word: weight / norm for word, weight in weights.items()}

    return [[vector(sentence) for sentence in telling] for telling in counts]


def kept(tellings: Sequence[Sequence[str]]) -> list[list[float]]:
    """For each sentence of each telling how much of it the other tellings keep, from 0 to 1."""
    vectors = weighted(tellings)
    labels = []
    for own in range(len(tellings)):
        others = [telling for number, telling in enumerate(vectors) if number != own and telling]
        labels.append(
            [
                sum(max(similarity(a, b) for b in other) for other in others) / len(others)
                for a in vectors[own]
            ]
        )
    return labels


def similarity(a: dict[str, float], b: dict[str, float]) -> float:
    return sum(weight * b.get(word, 0.0) for word, weight in a.items())


def labelled(row: dict) -> Iterator[dict]:
    """The tellings of a row that are long enough, with labels."""
    tellings = [telling["sentences"] for telling in row["tellings"] if telling["sentences"]]
    if len(tellings) < 2:
        return
    for number, (sentences, labels) in enumerate(zip(tellings, kept(tellings), strict=True)):
        if len(sentences) >= FEWEST:
            yield {
                "id": f"{row['id']}-{number}",
                "story": sentences,
                "labels": [round(label, 4) for label in labels],
            }


def labelled_by_summaries(source: str) -> list[dict]:
    """The stories of a source that have summaries, with labels; of a file without, none."""
    data = load_story_salience(source)
    rows = data["test"] if "test" in data else next(iter(data.values()))
    return [
        {
            "id": row["id"],
            "story": row["story"],
            "labels": kept([row["story"], *([summary] for summary in row["summaries"])])[0],
        }
        for row in rows
        if row["summaries"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", help="JSON Lines with tellings; or stories with summaries")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for looked.jsonl and unseen.jsonl"
    )
    options = parser.parse_args()
    path = Path(options.rows)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows = [json.loads(line) for line in lines if '"tellings"' in line]
    halves: dict[str, list[dict]] = {"looked": [], "unseen": []}
    for row in rows:
        # All tellings of a story are in the same half.
        half = "unseen" if hashlib.sha256(row["id"].encode()).digest()[0] % 2 else "looked"
        halves[half] += labelled(row)
    if not rows:
        halves = {"summaries": labelled_by_summaries(options.rows)}
    options.out.mkdir(parents=True, exist_ok=True)
    for name, found in halves.items():
        (options.out / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in found), encoding="utf-8"
        )
        print(f"{name}: {len(found)} texts, {sum(len(row['story']) for row in found)} sentences")


if __name__ == "__main__":
    main()

"""Which of two texts retells a story? Triples of a text, another version of it by another person, and
the text of another story that shares most words with it.

    python research/encoders/triples.py DATA --model default --model FOLDER

Versions are translations of fables and tales (`folktale_twins.jsonl`), summaries of one work by
several people (`squality_plot_twins.jsonl`, the half of the works that is not trained on), and plots
of works that retell each other (`retellings_wiki.jsonl`). The other text is of the same file, and the
nearest by words, weighted by how rare they are; so by words alone many triples are decided wrongly,
and the table has that row, too.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from datasets import Dataset
from judged import is_held_out
from sentence_transformers import SentenceTransformer

from narrative_twins import default_encoder
from narrative_twins.training.evaluators import TwinsEvaluator


def triples(data: Path) -> Dataset:
    """Rows of `story`, `twin` and `negative`, for `TwinsEvaluator`."""
    rows = [row for versions in _works(data) for row in _triples_of(versions)]
    return Dataset.from_list(
        [dict(zip(("story", "twin", "negative"), row, strict=True)) for row in rows]
    )


def _works(data: Path) -> list[list[list[list[str]]]]:
    """By file and work, versions as lists of sentences; works with one version are only the other
    text of a triple."""

    def rows(name: str) -> list[dict]:
        return list(map(json.loads, (data / name).read_text(encoding="utf-8").splitlines()))

    tales: dict[str, list[list[str]]] = {}
    for row in rows("folktale_twins.jsonl"):
        tales.setdefault(row["title"].lower(), [row["sentences"], row["twin_sentences"]])
    summaries = [
        [version["sentences"] for version in row["tellings"]]
        for row in rows("squality_plot_twins.jsonl")
        if is_held_out(row["id"])
    ]
    retold: dict[int, list[list[str]]] = {}
    for row in rows("retellings_wiki.jsonl"):
        retold.setdefault(row["cluster"], []).append(row["sentences"])
    return [list(tales.values()), summaries, list(retold.values())]


def _triples_of(works: Sequence[Sequence[list[str]]]) -> list[tuple[list[str], ...]]:
    """A triple of the first two versions of each work that has them."""
    similar = word_similarities([versions[0] for versions in works])
    np.fill_diagonal(similar, -1)
    return [
        (versions[0], versions[1], works[int(similar[number].argmax())][0])
        for number, versions in enumerate(works)
        if len(versions) > 1
    ]


def word_similarities(
    texts: Sequence[list[str]], others: Sequence[list[str]] | None = None
) -> np.ndarray:
    """Cosines of word counts, weighted by how rare a word is in `texts`, of shape (texts, others);
    by default among the texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # comes with sentence-transformers

    weights = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    vectors = weights.fit_transform(map(" ".join, texts))
    compared = vectors if others is None else weights.transform(map(" ".join, others))
    return (vectors @ compared.T).toarray()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of the research data")
    parser.add_argument("--model", action="append", default=[], help="a folder, or `default`")
    arguments = parser.parse_args()
    rows = triples(arguments.data)
    stories, twins, others = (rows[name] for name in ("story", "twin", "negative"))
    texts = [*stories, *others]
    nearer = np.diagonal(word_similarities(texts, twins)) > np.diagonal(
        word_similarities(texts, others)
    )
    print(f"{len(rows)} triples, decided rightly\nby words: {nearer.mean():.3f}")
    for name in arguments.model:
        model = SentenceTransformer(str(default_encoder() if name == "default" else name))
        print(f"{name}: {TwinsEvaluator(rows)(model)}", flush=True)


if __name__ == "__main__":
    main()

"""Story similarity: which of two stories is nearer to a third, as in SemEval-2026 Task 4. Encoders
and baselines are compared by their accuracy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.data.file_formats import read_records
from narrative_twins.data.loading import load_triples
from narrative_twins.data.rows import Row, is_triple
from narrative_twins.data.sources import CORPORA, DataSource, source_files
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.labelled_stories import evaluation_split
from narrative_twins.evaluation.significance import paired_permutation_tests, proportion_interval
from narrative_twins.evaluation.tables import Cell, Table, figure, interval, p_value
from narrative_twins.writing import atomic_write

Vectors: TypeAlias = NDArray[np.floating[Any]]


def is_similarity_data(source: Any) -> bool:
    """Return whether the first row of a file, folder or Hub id is a triple of `load_triples`; False
    for a table of labels in CSV, and if there are no rows to read."""
    if not isinstance(source, (str, Path)) or str(source) in CORPORA:
        return False
    if str(source).endswith(".csv"):
        return False
    try:
        file = next(iter(source_files(source).values()))[0]
        return is_triple(next(read_records(file)).row)
    except (OSError, ValueError, StopIteration):
        return False


@dataclass(frozen=True)
class SimilarityComparison:
    """The accuracy of encoders and baselines on triples of stories.

    Attributes:
        name: the name of the data.
        correct: for each row of the table a number per triple: 1.0 if the right story is nearer,
            0.0 if the other is, 0.5 for a tie; for several runs of an encoder, their mean.
        against: the row that all others are tested against; None for the first.
    """

    name: str
    correct: Mapping[str, NDArray[np.float64]]
    against: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """Return for each row its `name`, `accuracy`, its 95 % `interval` by the method
        of Wilson, and `p` of a paired permutation test against the row `against`."""
        against = self.against or next(iter(self.correct))
        names = [name for name in self.correct if name != against]
        tests = paired_permutation_tests(
            [self.correct[name] for name in names], self.correct[against]
        )
        p_values = dict(zip(names, tests, strict=True))
        return [
            {
                "name": name,
                "accuracy": float(values.mean()),
                "interval": proportion_interval(values),
                "p": p_values.get(name),
            }
            for name, values in self.correct.items()
        ]

    def table(self) -> Table:
        """Return the rows as a table for Markdown and LaTeX."""
        against = self.against or next(iter(self.correct))
        count = len(self.correct[against])
        cells = [
            [
                Cell(row["name"]),
                Cell(figure(row["accuracy"])),
                Cell(interval(row["interval"])),
                Cell(p_value(row["p"])),
            ]
            for row in self.rows()
        ]
        return Table(
            f"{self.name}: {count:,} triples of stories. Accuracy: how often the story that is"
            " labelled as the nearer one is nearer; a tie counts half.",
            ["", "accuracy", "95 % interval", "p"],
            cells,
            [f"p: paired permutation test over triples against {against}."],
        )

    def write(self, folder: str | Path) -> None:
        """Write `results.json`, with what is right in each triple, and the table as `table.md` and
        `table.tex` into a folder."""
        folder, table = Path(folder), self.table()
        folder.mkdir(parents=True, exist_ok=True)
        correct = {name: values.tolist() for name, values in self.correct.items()}
        texts = {
            "results.json": json.dumps({"rows": self.rows(), "correct": correct}, indent=1) + "\n",
            "table.md": table.to_markdown(),
            "table.tex": table.to_latex(),
        }
        for name, text in texts.items():
            with atomic_write(folder / name) as file:
                file.write(text)


def evaluate_similarity(
    encoders: Mapping[str, Any],
    data: DataSource,
    *,
    name: str | None = None,
    split: str | None = None,
    baselines: Iterable[str] | None = None,
    against: str | None = None,
    loading: Mapping[str, Any] | None = None,
) -> SimilarityComparison:
    """Compare encoders and baselines on triples of stories: how often the vector of the anchor has
    a higher cosine similarity to the story that is labelled as the nearer one than to the other.

    Args:
        encoders: a dict from a name to an encoder, or to a list of runs of different seeds. An
            encoder is a `StoryEncoder`, its folder or Hub id, or None for the default encoder. An
            encoder as it was before training shows what training does.
        data: triples, see `load_triples`.
        name: the name of the data; default the last part of a path.
        split: the split; default `test`, `validation` or the first.
        baselines: names out of `TRIPLE_BASELINES`; default all for which the library is installed.
        against: the row that all others are tested against; default the first.
        loading: options of `StoryEncoder.from_pretrained`.

    Raises:
        ValueError: there is nothing to compare, or a name is unknown or used twice.
        RowError, OSError: the data or an encoder can't be loaded.
        ImportError: a baseline that is named needs a library.
    """
    splits = load_triples(data)
    name = name or Path(str(data)).stem
    triples = list(splits[evaluation_split(splits, split, name)])
    names = _baseline_names(baselines)
    if twice := sorted(encoders.keys() & set(names)):
        raise ValueError(f"an encoder has the name of a baseline, {twice[0]!r}; rename it")
    correct = {}
    for key, runs in encoders.items():
        each = [
            nearer(_similarities(_encoder(run, loading or {}).encode, triples))
            for run in (runs if isinstance(runs, (list, tuple)) else [runs])
        ]
        correct[key] = np.mean(each, axis=0)
    correct |= {key: nearer(TRIPLE_BASELINES[key](triples)) for key in names}
    if not correct:
        raise ValueError("there is nothing to compare; give an encoder or a baseline")
    if against is not None and against not in correct:
        raise ValueError(f"no row {against!r}, only {', '.join(correct)}")
    return SimilarityComparison(name, correct, against)


def nearer(similarities: Vectors) -> NDArray[np.float64]:
    """Return for each triple 1.0 if the positive is nearer, 0.0 if the negative is, and 0.5 for a
    tie. `similarities`, shape (triples, 2), are those of the anchor to the two."""
    positive, negative = similarities.T
    return np.where(positive == negative, 0.5, positive > negative)


def _encoder(encoder: Any, loading: Mapping[str, Any]) -> StoryEncoder:
    """Return a `StoryEncoder` as it is or of a `SentenceTransformer`, and load any other."""
    if isinstance(encoder, StoryEncoder):
        return encoder
    if encoder is not None and not isinstance(encoder, (str, Path)):
        return StoryEncoder.from_sentence_transformer(encoder)
    return StoryEncoder.from_pretrained(encoder, **loading)


def _texts(triples: Sequence[Row]) -> Iterator[str]:
    """Yield the three texts of each triple."""
    for row in triples:
        yield from (row["anchor"], row["positive"], row["negative"])


def _similarities(
    encode: Callable[[list[str]], Vectors], triples: Sequence[Row]
) -> NDArray[np.float64]:
    """Return the cosine similarities of each anchor to positive and negative, shape (triples, 2),
    in float64."""
    vectors = np.asarray(encode(list(_texts(triples))), np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    anchors, positives, negatives = vectors[0::3], vectors[1::3], vectors[2::3]
    others = np.stack([positives, negatives], axis=1)
    return np.asarray(np.einsum("td,tsd->ts", anchors, others))


def _by_length(triples: Sequence[Row]) -> NDArray[np.float64]:
    """Return similarities by the number of words: the smaller the difference, the higher."""
    words = np.array([len(text.split()) for text in _texts(triples)], np.float64).reshape(-1, 3)
    return -np.abs(words[:, 1:] - words[:, :1])


def _by_tfidf(triples: Sequence[Row]) -> NDArray[np.float64]:
    """Return cosine similarities of TF-IDF vectors, whose weights are of all texts of the data.
    Raises ImportError without scikit-learn."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise ImportError("the baseline tfidf needs scikit-learn: pip install scikit-learn") from (
            error
        )
    return _similarities(lambda texts: TfidfVectorizer().fit_transform(texts).toarray(), triples)


TRIPLE_BASELINES: Mapping[str, Callable[[Sequence[Row]], NDArray[np.float64]]] = {
    "length": _by_length,
    "tfidf": _by_tfidf,
}
"""Baselines of `evaluate_similarity`: similarities, shape (triples, 2), of triples."""


def _baseline_names(names: Iterable[str] | None) -> list[str]:
    """Return the `names` of baselines, or without any all whose libraries are installed. Raises a
    `ValueError` for an unknown name."""
    if names is None:
        has_sklearn = find_spec("sklearn") is not None
        return [key for key in TRIPLE_BASELINES if key != "tfidf" or has_sklearn]
    names = list(names)
    if unknown := sorted(set(names) - TRIPLE_BASELINES.keys()):
        raise ValueError(
            f"baseline {unknown[0]!r} is not for triples of stories; use"
            f" {', '.join(TRIPLE_BASELINES)} or none"
        )
    return names

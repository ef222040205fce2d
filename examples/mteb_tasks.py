"""Two tasks for `mteb`: is a story nearer to its twin than to a distractor? On the validation rows
of the package, offline (`pip install mteb`):

    python examples/mteb_tasks.py [ENCODER]

mteb caches results by the name of the encoder; encoders in folders have none that tells them apart,
so `cache=None`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from sentence_transformers import SentenceTransformer

from narrative_twins import default_encoder
from narrative_twins.data.sources import NARRATIVE_TWINS, corpus_rows

SPLIT = "validation"


def text(sentences: str | Iterable[Any]) -> str:
    """Sentences, perhaps in windows, as a text."""
    return sentences if isinstance(sentences, str) else " ".join(map(text, sentences))


def triplets(name: str) -> list[tuple[str, str, str, str]]:
    """An id, a text, its twin (the same plot in other words) and its distractor (another plot in
    nearly the same words). A distractor with a twin of its own is a text as well."""
    rows = []
    for row in corpus_rows(name)[SPLIT]:
        story, twin, distractor = (text(row[key]) for key in ("story", "twin", "negative"))
        rows.append((row["id"], story, twin, distractor))
        if row.get("negative_twin"):
            rows.append((f"{row['id']}-negative", distractor, text(row["negative_twin"]), story))
    return rows


def task(name: str, description: str) -> AbsTaskRetrieval:
    """The task for a corpus of the package; `accuracy` is how often the twin is nearer."""
    ids, texts, twins, distractors = map(list, zip(*triplets(name), strict=True))
    candidates = [f"{id_}:twin" for id_ in ids] + [f"{id_}:distractor" for id_ in ids]
    split = {
        "queries": Dataset.from_dict({"id": ids, "text": texts}),
        "corpus": Dataset.from_dict({"id": candidates, "text": twins + distractors}),
        "relevant_docs": {id_: {f"{id_}:twin": 1} for id_ in ids},
        "top_ranked": {id_: [f"{id_}:distractor", f"{id_}:twin"] for id_ in ids},
    }

    class Task(AbsTaskRetrieval):
        k_values = (1, 2)
        metadata = TaskMetadata(
            name=f"NarrativeTwins{name.capitalize()}",
            description=description,
            # Nothing is loaded from the Hub: mteb only requires the two names.
            dataset={"path": "narrative_twins", "revision": "package"},
            type="Reranking",
            category="t2t",
            eval_splits=[SPLIT],
            eval_langs=["eng-Latn"],
            main_score="accuracy",
            domains=["Fiction", "Written"],
            license="cc0-1.0",
            annotations_creators="LM-generated",
            sample_creation="created",
            bibtex_citation=NARRATIVE_TWINS,
        )

        def load_data(self, *_: Any, **__: Any) -> None:
            self.dataset, self.data_loaded = {"default": {SPLIT: split}}, True

    return Task()


TASKS = {
    "stories": "Find the story with the same plot in other words, not the one in the same words.",
    "synopses": "Find the synopsis with the same plot in other words, not another plot.",
}

if __name__ == "__main__":
    model = SentenceTransformer(*(sys.argv[1:] or [default_encoder()]))
    tasks = [task(name, description) for name, description in TASKS.items()]
    results = mteb.evaluate(model, tasks, cache=None)
    print({result.task_name: result.get_score() for result in results.task_results})

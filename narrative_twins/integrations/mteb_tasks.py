"""Tasks for `mteb`: is a story nearer to its twin than to a distractor? On the validation rows of
the package, offline.

```python
import mteb
from narrative_twins import default_encoder
from narrative_twins.integrations.mteb_tasks import narrative_twins_tasks
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(default_encoder())
results = mteb.evaluate(model, narrative_twins_tasks(), cache=None)
```

mteb caches results by the name of the encoder; encoders in folders have none that tells them apart,
so `cache=None`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from narrative_twins.extras import check_extra

check_extra("mteb")

from datasets import Dataset  # noqa: E402
from mteb.abstasks.retrieval import AbsTaskRetrieval  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402

from narrative_twins.data.sources import NARRATIVE_TWINS, corpus_rows  # noqa: E402

_SPLIT = "validation"


def _metadata(name: str, description: str) -> TaskMetadata:
    return TaskMetadata(
        name=name,
        description=description,
        # Nothing is loaded from the Hub: mteb only requires the two names.
        dataset={"path": "narrative_twins", "revision": "package"},
        type="Reranking",
        category="t2t",
        eval_splits=[_SPLIT],
        eval_langs=["eng-Latn"],
        main_score="accuracy",
        domains=["Fiction", "Written"],
        license="cc0-1.0",
        annotations_creators="LM-generated",
        sample_creation="created",
        bibtex_citation=NARRATIVE_TWINS,
    )


class _TripletTask(AbsTaskRetrieval):
    """Ranks twin and distractor of each text; `accuracy` is how often the twin is first."""

    k_values = (1, 2)
    data_loaded: bool = False

    def triplets(self) -> Iterator[tuple[str, str, str, str]]:
        """The triplets of the task: an id, a text, its twin (the same plot in other words), and a
        distractor (another plot in nearly the same words)."""
        raise NotImplementedError

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        """Load the rows of the package."""
        if self.data_loaded:
            return
        ids, texts, twins, distractors = map(list, zip(*self.triplets(), strict=True))
        candidates = [f"{name}:twin" for name in ids] + [f"{name}:distractor" for name in ids]
        data = {
            "queries": Dataset.from_dict({"id": ids, "text": texts}),
            "corpus": Dataset.from_dict({"id": candidates, "text": twins + distractors}),
            "relevant_docs": {name: {f"{name}:twin": 1} for name in ids},
            "top_ranked": {name: [f"{name}:distractor", f"{name}:twin"] for name in ids},
        }
        self.dataset = {"default": {_SPLIT: data}}
        self.data_loaded = True


class NarrativeTwinsStories(_TripletTask):
    """Stories of five sentences; each row has two: a story, and its distractor, which has a twin of
    its own."""

    metadata: ClassVar[TaskMetadata] = _metadata(
        "NarrativeTwinsStories",
        "Find the story with the same plot in other words, next to a story with another plot in"
        " nearly the same words.",
    )

    def triplets(self) -> Iterator[tuple[str, str, str, str]]:
        for row in corpus_rows("stories")[_SPLIT]:
            story, twin, negative, negative_twin = (
                " ".join(row[column]) for column in ("story", "twin", "negative", "negative_twin")
            )
            yield row["id"], story, twin, negative
            yield f"{row['id']}-negative", negative, negative_twin, story


class NarrativeTwinsSynopses(_TripletTask):
    """Synopses of films."""

    metadata: ClassVar[TaskMetadata] = _metadata(
        "NarrativeTwinsSynopses",
        "Find the synopsis with the same plot in other words, next to another plot for the same"
        " film.",
    )

    def triplets(self) -> Iterator[tuple[str, str, str, str]]:
        for row in corpus_rows("synopses")[_SPLIT]:
            yield row["id"], _joined(row["story"]), " ".join(row["twin"]), _joined(row["negative"])


def _joined(windows: Iterable[Iterable[str]]) -> str:
    return " ".join(sentence for window in windows for sentence in window)


def narrative_twins_tasks() -> list[AbsTaskRetrieval]:
    """Both tasks, for `mteb.evaluate(model, narrative_twins_tasks())`."""
    return [NarrativeTwinsStories(), NarrativeTwinsSynopses()]

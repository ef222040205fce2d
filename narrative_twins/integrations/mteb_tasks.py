"""Tasks for `mteb`: is a story nearer to its twin than to a distractor? On the validation rows of
the package, offline.

```python
import mteb
from narrative_twins import default_encoder
from narrative_twins.integrations.mteb_tasks import narrative_twins_tasks
from sentence_transformers import SentenceTransformer

results = mteb.evaluate(SentenceTransformer(default_encoder()), narrative_twins_tasks())
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from narrative_twins.extras import check_extra

check_extra("mteb")

from datasets import Dataset  # noqa: E402
from mteb.abstasks.retrieval import AbsTaskRetrieval  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402

from narrative_twins.data.sources import NARRATIVE_TWINS, corpus_rows  # noqa: E402

_SPLIT = "validation"


class Triplet(NamedTuple):
    """A text, the same plot in other words, and another plot in nearly the same words."""

    id: str
    text: str
    twin: str
    distractor: str


def story_triplets() -> Iterator[Triplet]:
    """Two triplets for each row of the stories: of the story, and of its distractor, which has a
    twin of its own."""
    for row in corpus_rows("stories")[_SPLIT]:
        story, twin, negative, negative_twin = (
            " ".join(row[column]) for column in ("story", "twin", "negative", "negative_twin")
        )
        yield Triplet(row["id"], story, twin, negative)
        yield Triplet(f"{row['id']}-negative", negative, negative_twin, story)


def synopsis_triplets() -> Iterator[Triplet]:
    """A triplet for each synopsis."""
    for row in corpus_rows("synopses")[_SPLIT]:
        story, negative = (" ".join(map(" ".join, row[column])) for column in ("story", "negative"))
        yield Triplet(row["id"], story, " ".join(row["twin"]), negative)


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

    def triplets(self) -> Iterator[Triplet]:
        """The triplets of the task."""
        raise NotImplementedError

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        """Load the rows of the package."""
        if self.data_loaded:
            return
        triplets = list(self.triplets())
        twins = [{"id": f"{triplet.id}:twin", "text": triplet.twin} for triplet in triplets]
        distractors = [
            {"id": f"{triplet.id}:distractor", "text": triplet.distractor} for triplet in triplets
        ]
        data = {
            "queries": Dataset.from_list(
                [{"id": triplet.id, "text": triplet.text} for triplet in triplets]
            ),
            "corpus": Dataset.from_list(twins + distractors),
            "relevant_docs": {triplet.id: {f"{triplet.id}:twin": 1} for triplet in triplets},
            "top_ranked": {
                triplet.id: [f"{triplet.id}:distractor", f"{triplet.id}:twin"]
                for triplet in triplets
            },
        }
        self.dataset = {"default": {_SPLIT: data}}
        self.data_loaded = True


class NarrativeTwinsStories(_TripletTask):
    """Stories of five sentences."""

    metadata: ClassVar[TaskMetadata] = _metadata(
        "NarrativeTwinsStories",
        "Find the story with the same plot in other words, next to a story with another plot in"
        " nearly the same words.",
    )

    def triplets(self) -> Iterator[Triplet]:
        return story_triplets()


class NarrativeTwinsSynopses(_TripletTask):
    """Synopses of films."""

    metadata: ClassVar[TaskMetadata] = _metadata(
        "NarrativeTwinsSynopses",
        "Find the synopsis with the same plot in other words, next to another plot for the same"
        " film.",
    )

    def triplets(self) -> Iterator[Triplet]:
        return synopsis_triplets()


def narrative_twins_tasks() -> list[AbsTaskRetrieval]:
    """Both tasks, for `mteb.evaluate(model, narrative_twins_tasks())`."""
    return [NarrativeTwinsStories(), NarrativeTwinsSynopses()]

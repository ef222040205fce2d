"""The card of rows: what a data set at hand holds, and what is known of it."""

from __future__ import annotations

from typing import Any

from datasets import Dataset, DatasetDict
from huggingface_hub import DatasetCard

from narrative_twins.cards import ANYONE, DatasetFacts, dataset_card


def card_of_rows(data: Any, facts: DatasetFacts, repo_id: str = ANYONE) -> DatasetCard:
    """The card of a data set, with its columns and counts.

    Args:
        data: as in `push_dataset`.
        facts: what the card says besides.
        repo_id: the Hub id, where there is one.

    Raises:
        ValueError: there are no rows.
    """
    configurations = splits_by_configuration(data)
    rows = {name: {split: len(one) for split, one in splits.items()} for name, splits in configurations.items()}
    columns = {name: _columns(next(iter(splits.values()))) for name, splits in configurations.items()}
    return dataset_card(facts, columns, rows, repo_id)


def splits_by_configuration(data: Any) -> dict[str, dict[str, Dataset]]:
    """Rows, splits of them, or configurations of these, as splits by configuration.

    Raises:
        ValueError: there are no rows.
    """
    if isinstance(data, (Dataset, DatasetDict)):
        data = {"default": data}
    found = {
        str(name): {"train": one} if isinstance(one, Dataset) else {str(split): rows for split, rows in one.items()}
        for name, one in data.items()
    }
    if not found or not all(splits and all(len(rows) for rows in splits.values()) for splits in found.values()):
        raise ValueError("there are no rows to push in some configuration or split; leave it out")
    return found


def _columns(rows: Dataset) -> dict[str, str]:
    """What the columns hold, in words."""

    def words(feature: Any) -> str:
        inner = getattr(feature, "feature", None)
        return f"list of {words(inner)}" if inner is not None else str(getattr(feature, "dtype", feature))

    return {name: words(feature) for name, feature in rows.features.items()}

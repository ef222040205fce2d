"""The cards of encoders, data sets and the metric, from facts and the templates of `hub_cards`.

No row of the data gets into a card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from datasets import Dataset, DatasetDict
from huggingface_hub import DatasetCard, DatasetCardData, EvalResult, ModelCard, ModelCardData

from narrative_twins.hub.facts import DatasetFacts, EncoderFacts

PLACEHOLDER_ID = "user/name"
"""Placeholder for the Hub id in a card, which a push replaces."""


def template(name: str) -> str:
    """The content of a file of `hub_cards`."""
    return files("narrative_twins.hub_cards").joinpath(name).read_text(encoding="utf-8")


def encoder_card(facts: EncoderFacts, model_id: str | None = PLACEHOLDER_ID) -> ModelCard:
    """The card of an encoder; `model_id` is the Hub id in its snippets, None for the default
    encoder."""
    results = [
        EvalResult(
            task_type="narrative-salience",
            task_name="Narrative salience",
            dataset_type=figure.dataset_id or _slug(figure.dataset),
            dataset_name=figure.dataset,
            dataset_split=figure.split,
            metric_type=_slug(figure.metric),
            metric_name=figure.metric,
            metric_value=figure.value,
        )
        for figure in facts.figures
    ]
    data = ModelCardData(
        license=facts.license,
        language=facts.language,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        base_model=facts.base_model_id,
        tags=["narrative-salience", "sentence-transformers"],
        model_name=facts.name if results else None,
        eval_results=results or None,
    )
    text = template("model_card.md")
    card: ModelCard = ModelCard.from_template(
        data, template_str=text, facts=facts, model_id=model_id
    )
    return card


def _slug(words: str) -> str:
    return re.sub(r"\W+", "_", words.lower()).strip("_")


def dataset_card(
    facts: DatasetFacts,
    columns: Mapping[str, Mapping[str, str]],
    rows: Mapping[str, Mapping[str, int]],
    repo_id: str,
) -> DatasetCard:
    """The card of a data set: `columns` has types by configuration and column, `rows` counts by
    split instead."""
    configurations = [
        {
            "config_name": name,
            **({"default": True} if index == 0 else {}),
            "data_files": [
                {"split": split, "path": f"{name}/{split}-*.parquet"} for split in splits
            ],
        }
        for index, (name, splits) in enumerate(rows.items())
    ]
    data = DatasetCardData(
        pretty_name=facts.name,
        license=facts.license,
        language=facts.language,
        tags=["narrative", "narrative-salience", *facts.tags],
        configs=configurations,
    )
    text = template("dataset_card.md")
    card: DatasetCard = DatasetCard.from_template(
        data, template_str=text, facts=facts, columns=columns, rows=rows, repo_id=repo_id
    )
    return card


def card_of_rows(data: Any, facts: DatasetFacts, repo_id: str = PLACEHOLDER_ID) -> DatasetCard:
    """The card of a data set as in `push_dataset`, with its columns and counts; raises ValueError
    without rows."""
    rows, columns = {}, {}
    for name, splits in splits_by_configuration(data).items():
        rows[name] = {split: len(part) for split, part in splits.items()}
        features = next(iter(splits.values())).features
        columns[name] = {column: _type(feature) for column, feature in features.items()}
    return dataset_card(facts, columns, rows, repo_id)


def splits_by_configuration(data: Any) -> dict[str, dict[str, Dataset]]:
    """The splits by configuration of a data set as in `push_dataset`; raises ValueError if one of
    them has no rows."""
    if isinstance(data, (Dataset, DatasetDict)):
        data = {"default": data}
    parts = {
        str(name): {"train": part} if isinstance(part, Dataset) else dict(part)
        for name, part in data.items()
    }
    if not parts or not all(splits and all(splits.values()) for splits in parts.values()):
        raise ValueError("a configuration or split has no rows to push; leave it out")
    return parts


def _type(feature: Any) -> str:
    """The type of a column in words."""
    inner = getattr(feature, "feature", None)
    return f"list of {_type(inner)}" if inner else str(getattr(feature, "dtype", feature))

"""The cards of encoders, data sets and metrics: what is known about them, filled into the templates of `hub_cards`.

A card says what a thing was made of and how good it is; no row of anyone's data gets into one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from datasets import Dataset, DatasetDict
from huggingface_hub import DatasetCard, DatasetCardData, EvalResult, ModelCard, ModelCardData, RepoCard

from narrative_twins.hub.facts import DatasetFacts, EncoderFacts, Figure

PLACEHOLDER_ID = "user/name"
"""Stands in a card for the Hub id, as long as there is none."""


def template(name: str) -> str:
    """A file of `hub_cards`."""
    return files("narrative_twins.hub_cards").joinpath(name).read_text(encoding="utf-8")


def encoder_card(facts: EncoderFacts, model_id: str | None = PLACEHOLDER_ID) -> ModelCard:
    """The card of an encoder.

    Args:
        facts: what it says.
        model_id: the Hub id in its snippets; None where it is the default encoder.
    """
    results = [_result(figure) for figure in facts.figures]
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
    card: ModelCard = ModelCard.from_template(
        data,
        template_str=template("model_card.md"),
        model_name=facts.name,
        model_id=model_id,
        base_model=facts.base_model,
        training_data=facts.training_data,
        objective=facts.objective,
        windows=facts.windows,
        seeds=facts.seeds,
        figures=facts.table or _table(facts.figures),
        limits=facts.limits,
    )
    return card


def _result(figure: Figure) -> EvalResult:
    return EvalResult(
        task_type="narrative-salience",
        task_name="Narrative salience",
        dataset_type=figure.dataset_id or _slug(figure.dataset),
        dataset_name=figure.dataset,
        dataset_split=figure.split,
        metric_type=_slug(figure.metric),
        metric_name=figure.metric,
        metric_value=figure.value,
    )


def _slug(words: str) -> str:
    return "_".join("".join(char if char.isalnum() else " " for char in words.lower()).split())


def _table(figures: Sequence[Figure]) -> str:
    if not figures:
        return "Not measured."
    rows = [
        f"| {one.dataset}{f' ({one.split})' if one.split else ''} | {one.metric} | {one.value:.3f} |" for one in figures
    ]
    return "\n".join(["| evaluation set | metric | |", "|---|---|---|", *rows])


def dataset_card(
    facts: DatasetFacts, columns: Mapping[str, Mapping[str, str]], rows: Mapping[str, Mapping[str, int]], repo_id: str
) -> DatasetCard:
    """The card of a data set.

    Args:
        facts: what it says.
        columns: for each configuration the columns and their types.
        rows: for each configuration the splits and how many rows they have.
        repo_id: the Hub id.
    """
    configurations = [
        {
            "config_name": name,
            **({"default": True} if at == 0 else {}),
            "data_files": [{"split": split, "path": f"{name}/{split}-*.parquet"} for split in splits],
        }
        for at, (name, splits) in enumerate(rows.items())
    ]
    data = DatasetCardData(
        pretty_name=facts.name,
        license=facts.license,
        language=facts.language,
        tags=["narrative", "narrative-salience", *facts.tags],
        configs=configurations,
    )
    card: DatasetCard = DatasetCard.from_template(
        data, template_str=template("dataset_card.md"), facts=facts, columns=columns, rows=rows, repo_id=repo_id
    )
    return card


def metric_card(repo_id: str) -> RepoCard:
    """The card of the metric."""
    text = template("metric_card.md").replace(PLACEHOLDER_ID, repo_id)
    return RepoCard(text)


def with_id(card: str, repo_id: str) -> str:
    """A card that was written before there was a Hub id, with the id in its snippets."""
    return card.replace(PLACEHOLDER_ID, repo_id)


def card_of_rows(data: Any, facts: DatasetFacts, repo_id: str = PLACEHOLDER_ID) -> DatasetCard:
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

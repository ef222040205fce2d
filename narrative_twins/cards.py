"""The cards of encoders, data sets and metrics: what is known about them, filled into the templates of `hub_cards`.

A card says what a thing was made of and how good it is; no row of anyone's data gets into one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import yaml
from huggingface_hub import DatasetCard, DatasetCardData, EvalResult, ModelCard, ModelCardData, RepoCard

ANYONE = "user/name"
"""Stands in a card for the Hub id, as long as there is none."""

NOT_SAID = "not said"

Facts = TypeVar("Facts", "EncoderFacts", "DatasetFacts")


@dataclass(frozen=True)
class Figure:
    """A figure of an encoder, and the evaluation set that it was measured on.

    Attributes:
        metric: what was measured, such as `"Spearman of summarization"`.
        value: the figure.
        dataset: the name of the evaluation set.
        dataset_id: its Hub id, where it has one.
        split: of it.
    """

    metric: str
    value: float
    dataset: str
    dataset_id: str | None = None
    split: str | None = None


@dataclass
class EncoderFacts:
    """What the card of an encoder says.

    Attributes:
        name: the title.
        base_model: what it was trained from, in words or Markdown.
        base_model_id: its Hub id, where it has one.
        training_data: what it was trained on, and under what licence that is.
        objective, windows, seeds: of the training.
        figures: how good it is; they go into the card's `model-index` too.
        table: instead of the table of the figures, one in Markdown.
        limits: what it is not good for.
        license: an id of the Hub's list, such as `"apache-2.0"`.
        language: of the texts, such as `"en"`.
    """

    name: str = "A story encoder"
    base_model: str = NOT_SAID
    base_model_id: str | None = None
    training_data: str = NOT_SAID
    objective: str = NOT_SAID
    windows: str = NOT_SAID
    seeds: str = NOT_SAID
    figures: Sequence[Figure] = ()
    table: str | None = None
    limits: str = "Not measured beyond the figures above. Salience is what an encoder's similarities say."
    license: str | None = None
    language: str = "en"

    def __post_init__(self) -> None:
        self.figures = [one if isinstance(one, Figure) else Figure(**one) for one in self.figures]


@dataclass
class DatasetFacts:
    """What the card of a data set says besides its columns and counts.

    Attributes:
        name: the title.
        what: what it is, in a paragraph.
        source: who wrote or judged it, and how.
        limits: what it is not good for.
        license: an id of the Hub's list, such as `"cc0-1.0"`.
        language: of the texts.
        tags: further ones.
    """

    name: str = "Stories"
    what: str = NOT_SAID
    source: str = NOT_SAID
    limits: str = NOT_SAID
    license: str | None = None
    language: str = "en"
    tags: Sequence[str] = field(default_factory=list)


def said_in(kind: type[Facts], path: str | Path) -> dict[str, Any]:
    """The attributes of facts that a YAML file has.

    Raises:
        ValueError: the file is no such thing; names the attribute.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from error
    known = [one.name for one in fields(kind)]
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no mapping; give some of {', '.join(known)}")
    unknown = [name for name in content if name not in known]
    if unknown:
        raise ValueError(f"{path}: {unknown[0]!r} is no fact of a card; there are {', '.join(known)}")
    try:
        kind(**content)
    except TypeError as error:
        raise ValueError(f"{path}: figures take metric, value, dataset, dataset_id and split ({error})") from error
    return content


def read_facts(kind: type[Facts], path: str | Path) -> Facts:
    """Facts from a YAML file of their attributes.

    Raises:
        ValueError: as `said_in`.
    """
    return kind(**said_in(kind, path))


def facts_text(facts: EncoderFacts | DatasetFacts) -> str:
    """Facts as the YAML that `read_facts` reads."""
    content = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(facts).items()}
    text: str = yaml.dump(content, Dumper=_Blocks, allow_unicode=True, sort_keys=False, width=120)
    return text


class _Blocks(yaml.SafeDumper):
    """Writes texts of several lines as such, for people to edit."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Blocks.add_representer(str, _block)


def template(name: str) -> str:
    """A file of `hub_cards`."""
    return files("narrative_twins.hub_cards").joinpath(name).read_text(encoding="utf-8")


def encoder_card(facts: EncoderFacts, model_id: str | None = ANYONE) -> ModelCard:
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
    text = template("metric_card.md").replace(ANYONE, repo_id)
    return RepoCard(text)


def with_id(card: str, repo_id: str) -> str:
    """A card that was written before there was a Hub id, with the id in its snippets."""
    return card.replace(ANYONE, repo_id)

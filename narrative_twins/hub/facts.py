"""Facts about an encoder or a data set for its card, as dataclasses and as editable YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

UNKNOWN = "unknown"
_TEXT = "tag:yaml.org,2002:str"

Facts = TypeVar("Facts", "EncoderFacts", "DatasetFacts")


@dataclass(frozen=True)
class Figure:
    """A metric of an encoder on an evaluation set.

    Attributes:
        metric: the name of the metric, for example `"Spearman of summarization"`.
        value: its value.
        dataset: the name of the evaluation set.
        dataset_id: the Hub id of the evaluation set, if it has one.
        split: the split of the evaluation set.
    """

    metric: str
    value: float
    dataset: str
    dataset_id: str | None = None
    split: str | None = None


@dataclass
class EncoderFacts:
    """Facts for the card of an encoder; texts may be Markdown.

    Attributes:
        name: the title of the card.
        base_model: the model that the encoder was trained from.
        base_model_id: the Hub id of the base model, if it has one.
        training_data: the training data and its licence.
        objective, windows, seeds: details of the training.
        figures: evaluation results, also for the `model-index` of the card.
        table: a table to show in place of a table of `figures`; None shows the latter.
        limits: known limits.
        license: an id of the Hub's list, for example `"apache-2.0"`.
        language: the language or languages of the texts, for example `"en"`.
    """

    name: str = "A story encoder"
    base_model: str = UNKNOWN
    base_model_id: str | None = None
    training_data: str = UNKNOWN
    objective: str = UNKNOWN
    windows: str = UNKNOWN
    seeds: str = UNKNOWN
    figures: Sequence[Figure] = ()
    table: str | None = None
    limits: str = (
        "Not measured beyond the figures above."
        " Salience is computed from an encoder's similarities."
    )
    license: str | None = None
    language: str | list[str] = "en"

    def __post_init__(self) -> None:
        """Turn figures that are mappings, as YAML has them, into `Figure`s."""
        self.figures = [x if isinstance(x, Figure) else Figure(**x) for x in self.figures]


@dataclass
class DatasetFacts:
    """Facts for the card of a data set, apart from its columns and counts; texts may be Markdown.

    Attributes:
        name: the title of the card.
        description: a paragraph that describes the data.
        source: who wrote or labeled it, and how.
        limits: known limits.
        license: an id of the Hub's list, for example `"cc0-1.0"`.
        language: the language of the texts.
        tags: additional tags.
    """

    name: str = "Stories"
    description: str = UNKNOWN
    source: str = UNKNOWN
    limits: str = UNKNOWN
    license: str | None = None
    language: str = "en"
    tags: Sequence[str] = field(default_factory=list)


def read_fact_values(kind: type[Facts], path: str | Path) -> dict[str, Any]:
    """Return the facts in a YAML file, a mapping of attributes of the class `kind`, as a dict.
    Raises ValueError if the file or an attribute is invalid."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        kind(**content)
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, RecursionError) as error:
        names = ", ".join(attribute.name for attribute in fields(kind))
        raise ValueError(
            f"{path} is not a YAML mapping of facts ({error}); the facts are {names}; each of the"
            " figures has metric, value, dataset, and perhaps dataset_id and split"
        ) from error
    return dict(content)


def read_facts(kind: type[Facts], path: str | Path) -> Facts:
    """Return the facts in a YAML file, of class `kind`. Raises ValueError as `read_fact_values`."""
    return kind(**read_fact_values(kind, path))


class _Blocks(yaml.SafeDumper):
    """Writer of YAML that writes texts of several lines as blocks, which are easier to edit."""


_Blocks.add_representer(
    str, lambda dumper, text: dumper.represent_scalar(_TEXT, text, "|" if "\n" in text else None)
)


def facts_text(facts: EncoderFacts | DatasetFacts) -> str:
    """Return facts as YAML, which `read_facts` reads."""
    return str(yaml.dump(asdict(facts), None, _Blocks, allow_unicode=True, sort_keys=False))

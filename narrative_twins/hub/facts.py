"""What is known of an encoder or a data set, for its card: as data, and as YAML that people edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

UNKNOWN = "not said"


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
    base_model: str = UNKNOWN
    base_model_id: str | None = None
    training_data: str = UNKNOWN
    objective: str = UNKNOWN
    windows: str = UNKNOWN
    seeds: str = UNKNOWN
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
    what: str = UNKNOWN
    source: str = UNKNOWN
    limits: str = UNKNOWN
    license: str | None = None
    language: str = "en"
    tags: Sequence[str] = field(default_factory=list)


def read_fact_values(kind: type[Facts], path: str | Path) -> dict[str, Any]:
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
        ValueError: as `read_fact_values`.
    """
    return kind(**read_fact_values(kind, path))


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

"""The cards of encoders and data sets, from facts and the templates of `hub_cards`.

No row of the data gets into a card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from datasets import Dataset
from huggingface_hub import DatasetCard, DatasetCardData, EvalResult, ModelCard, ModelCardData

from narrative_twins.hub.facts import DatasetFacts, EncoderFacts

_EVALUATION = re.compile(r"^## Evaluation\n.*?(?=^## |\Z)", re.M | re.S)
"""The section of a card of an encoder with its figures."""
PLACEHOLDER_ID = "user/name"
"""Placeholder for the Hub id in a card, which a push replaces."""
_IMPORT_PATH = "from narrative_twins.encoder import encoder_path"
_LOADED_FROM_PACKAGE = re.compile(
    r'pipeline\("narrative-salience"(, model=encoder_path\("\w+"\))?\)'
)
"""How the card of an encoder in this package loads it, which a push replaces."""


def template(name: str) -> str:
    """Return the text of the file `name` in the subpackage `hub_cards`."""
    return files("narrative_twins.hub_cards").joinpath(name).read_text(encoding="utf-8")


def encoder_card(
    facts: EncoderFacts, model_id: str = PLACEHOLDER_ID, packaged_as: str | None = None
) -> ModelCard:
    """Return the card of an encoder. The example in the card loads the encoder by the Hub id
    `model_id`, or an encoder in this package by its name `packaged_as`."""
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
    model = f', model="{model_id}"'
    if packaged_as:
        model = "" if packaged_as == "default" else f', model=encoder_path("{packaged_as}")'
    importing = _IMPORT_PATH if "encoder_path" in model else "import narrative_twins"
    values: Any = {"facts": facts, "model": model, "importing": importing}
    text = template("model_card.md")
    card: ModelCard = ModelCard.from_template(data, template_str=text, **values)
    return card


def with_id(card: str, repo_id: str) -> str:
    """Return the card of an encoder whose example loads it by the Hub id that it is pushed to."""
    card = card.replace(PLACEHOLDER_ID, repo_id).replace(_IMPORT_PATH, "import narrative_twins")
    loaded = f'pipeline("narrative-salience", model="{repo_id}")'
    return _LOADED_FROM_PACKAGE.sub(lambda _: loaded, card)


def without_figures(card: str, changes: str) -> str:
    """Return the card of an encoder without its figures, since they are of other settings:
    `changes` says which, as `pooling "first" in place of "mean"`. The section on its evaluation
    says so; a card without this section gets one."""
    parsed = ModelCard(card, ignore_metadata_errors=True)
    data: Any = parsed.data
    data.eval_results = data.model_name = None
    section = (
        "## Evaluation\n\nNot measured: this encoder has the weights of the checkpoint that this"
        f" card was written for, but {changes}. Figures of the checkpoint do not apply.\n"
    )
    text, count = _EVALUATION.subn(lambda _: f"{section}\n", parsed.text)
    parsed.text = text if count else f"{parsed.text.rstrip()}\n\n{section}"
    return str(parsed)


def _slug(words: str) -> str:
    """Return words as an identifier: `"ROC AUC"` → `"roc_auc"`."""
    return re.sub(r"\W+", "_", words.lower()).strip("_")


def dataset_card(
    facts: DatasetFacts,
    columns: Mapping[str, Mapping[str, str]],
    rows: Mapping[str, Mapping[str, int]],
    repo_id: str,
) -> DatasetCard:
    """Return the card of a data set. `columns` has for each configuration the types of columns,
    such as `{"default": {"text": "string"}}`. `rows` has the number of rows in each split:
    `{"default": {"train": 100}}`."""
    configurations: list[dict[str, Any]] = []
    for name, splits in rows.items():
        files = [{"split": split, "path": f"{name}/{split}-*.parquet"} for split in splits]
        default = {} if configurations else {"default": True}
        configurations.append({"config_name": name, **default, "data_files": files})
    data = DatasetCardData(
        pretty_name=facts.name,
        license=facts.license,
        language=facts.language,
        tags=["narrative", "narrative-salience", *facts.tags],
        configs=configurations,
    )
    values: Any = {"facts": facts, "columns": columns, "rows": rows, "repo_id": repo_id}
    text = template("dataset_card.md")
    card: DatasetCard = DatasetCard.from_template(data, template_str=text, **values)
    return card


def card_of_rows(
    data: Mapping[str, Mapping[str, Dataset]], facts: DatasetFacts, repo_id: str = PLACEHOLDER_ID
) -> DatasetCard:
    """Return the card of a data set with its columns and numbers of rows. `data` has the splits of
    each configuration: `{"default": {"train": dataset}}`."""
    rows = {name: {split: len(part) for split, part in data[name].items()} for name in data}
    columns = {}
    for name, splits in data.items():
        features = next(iter(splits.values())).features
        columns[name] = {column: _type(feature) for column, feature in features.items()}
    return dataset_card(facts, columns, rows, repo_id)


def _type(feature: Any) -> str:
    """Return the type of a column in words, such as `list of string`."""
    inner = getattr(feature, "feature", None)
    return f"list of {_type(inner)}" if inner else str(getattr(feature, "dtype", feature))

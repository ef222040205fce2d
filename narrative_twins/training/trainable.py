"""What can be trained: encoders with their pooling, rows that are right, checkpoints that are whole."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset
from sentence_transformers import SentenceTransformer, SentenceTransformerModelCardData
from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
from sentence_transformers.sentence_transformer.modules import Transformer
from tqdm.auto import tqdm
from transformers import AutoConfig
from transformers.trainer import TRAINER_STATE_NAME

from narrative_twins.data.rows import RowError, check_twins_row
from narrative_twins.encoder.checkpoint import default_encoder, hub_options, model_limit, read_checkpoint_settings
from narrative_twins.encoder.pooling import Pooling, check_pooling

logger = logging.getLogger(__name__)

_ST_POOLINGS: dict[Pooling, str] = {"mean": "mean", "first": "cls"}


def trainable_encoder(
    name: str | Path | None = None, *, pooling: Pooling | None = None, dropout: float = 0.1, **options: Any
) -> SentenceTransformer:
    """Load an encoder to be trained: a transformer and its pooling, in float32.

    A model whose configuration has all dropouts at zero, as ModernBERT kinds have, gets `attention_dropout`, so that it
    can learn from dropout twins.

    Args:
        name: folder or Hub id of a sentence-transformers model or any `AutoModel` encoder; None for the default.
        pooling: `"mean"` or `"first"`; default what the checkpoint says, else `"mean"`.
        dropout: the attention dropout of a model that has none of any kind.
        options: for `from_pretrained` of the model, such as `revision`, `token`, `dtype` or `attn_implementation`.

    Raises:
        OSError: there is no such model.
        ValueError: the pooling is none of the two.
    """
    name = str(name) if name is not None else default_encoder()
    hub = hub_options(options)
    config = AutoConfig.from_pretrained(name, **hub)
    wanted: dict[str, Any] = {}
    if not has_dropout(config) and hasattr(config, "attention_dropout"):
        wanted["attention_dropout"] = dropout
    kind = check_pooling(pooling or read_checkpoint_settings(name, **hub).pooling or "mean")
    transformer = Transformer(
        name, model_kwargs={"dtype": "float32", **options}, config_kwargs={**hub, **wanted}, processor_kwargs=hub
    )
    transformer.max_seq_length = model_limit(transformer.auto_model, transformer.tokenizer)
    card = SentenceTransformerModelCardData(
        local_files_only=Path(name).exists(), generate_widget_examples=False, tags=["narrative-salience"]
    )
    pooled = PoolingModule(transformer.get_embedding_dimension(), pooling_mode=_ST_POOLINGS[kind])
    return SentenceTransformer(modules=[transformer, pooled], model_card_data=card)


def has_dropout(config: Any) -> bool:
    """Whether a model of this configuration encodes a text in two ways while it trains. The dropout of a classifier on
    top of it does not count."""
    settings = {key: value for key, value in config.to_dict().items() if "dropout" in key and "classifier" not in key}
    return any(isinstance(value, float) and value > 0 for value in settings.values())


def checked_rows(data: Any, name: str, silent: bool) -> tuple[Any, str | None]:
    """Refuse rows of narrative twins that can't be trained on.

    Args:
        data: a data set, a dict of several, or None.
        name: what to call it in an error.
        silent: whether there is no progress bar, which many rows get.

    Returns:
        The data (a stream as one that is checked as it is read), and where the first row without a twin is.

    Raises:
        RowError: a row is wrong, or there are none; names the data set and the row.
    """
    if isinstance(data, dict):
        found = {key: checked_rows(one, f"{name}[{key!r}]", silent) for key, one in data.items()}
        lone = next((row for _, row in found.values() if row is not None), None)
        return {key: one for key, (one, _) in found.items()}, lone
    if isinstance(data, IterableDataset):

        def check(row: dict[str, Any], number: int) -> dict[str, Any]:
            check_twins_row(row, f"{name}, row {number}")
            return row

        return data.map(check, with_indices=True, features=data.features), None
    if not isinstance(data, Dataset):
        return data, None
    lone = None
    shown = not silent and len(data) > 10_000
    for number, row in enumerate(tqdm(data, desc="checking rows", disable=not shown)):
        check_twins_row(row, f"{name}, row {number}")
        if lone is None and row.get("twin") is None:
            lone = f"{name}, row {number}"
    if not len(data):
        raise RowError(name, "there are no rows; give at least one")
    return data, lone


def require_dropout(model: SentenceTransformer, lone: str | None) -> None:
    """Refuse a model that would encode both dropout twins as the same vector.

    Args:
        model: what is to be trained.
        lone: where a row without a twin is, if that is why dropout twins are needed.

    Raises:
        ValueError: all its dropouts are 0.
    """
    transformer: Any = model[0].auto_model
    config = transformer.config
    if not has_dropout(config):
        why = "twins='dropout'" if lone is None else f"a row without a twin ({lone})"
        raise ValueError(
            f"{why} needs an encoder with dropout, and all dropouts of this {config.model_type} are 0, so both twins "
            "would have the same vector; load it with trainable_encoder(...), or with "
            "config_kwargs={'attention_dropout': 0.1}"
        )


def last_whole_checkpoint(folder: Path) -> str | None:
    """The last checkpoint in a folder that has the file which is written last."""
    found = sorted(folder.glob("checkpoint-*"), key=_step, reverse=True)
    for checkpoint in found:
        try:
            json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
            return str(checkpoint)
        except (OSError, ValueError):
            logger.warning("%s is not whole: the run was ended while it was saved; it is passed over", checkpoint)
    if found:
        raise ValueError(f"no checkpoint in {folder} is whole; start anew, without resume_from_checkpoint")
    return None


def _step(checkpoint: Path) -> int:
    step = checkpoint.name.removeprefix("checkpoint-")
    return int(step) if step.isdecimal() else -1

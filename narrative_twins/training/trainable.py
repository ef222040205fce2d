"""What training starts from: encoders with pooling and dropout, checked rows, complete
checkpoints."""

from __future__ import annotations

import json
import logging
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, IterableDataset
from sentence_transformers import SentenceTransformer, SentenceTransformerModelCardData
from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
from sentence_transformers.sentence_transformer.modules import Transformer
from tqdm.auto import tqdm
from transformers import AutoConfig, AutoTokenizer
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME
from transformers.trainer_pt_utils import safe_globals
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from narrative_twins.data.rows import RowError, check_twins_row
from narrative_twins.encoder.adapters import tokenizer_source
from narrative_twins.encoder.checkpoint import default_encoder, read_checkpoint_settings
from narrative_twins.encoder.loading import adapter_at, hub_options, merge_adapter, without_hub
from narrative_twins.encoder.models import check_checkpoint, model_limit
from narrative_twins.encoder.names import resolve_name
from narrative_twins.encoder.pooling import Pooling, check_pooling
from narrative_twins.encoder.tokens import check_vocabulary

logger = logging.getLogger(__name__)

_MODEL_FILES = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME)
_ADAPTER_FILES = ("adapter_model.safetensors",)
_ST_POOLINGS: dict[Pooling, str] = {"mean": "mean", "first": "cls"}


def trainable_encoder(
    name: str | Path | None = None,
    *,
    pooling: Pooling | None = None,
    dropout: float = 0.1,
    **options: Any,
) -> SentenceTransformer:
    """Load an encoder for training: a transformer and its pooling, in float32.

    Args:
        name: folder or Hub id of a sentence-transformers model or any `AutoModel` encoder, or of a
            PEFT adapter of one; None for the default. The adapter is merged into its base, and all
            weights are trained; to train an adapter only, add a new one:
            `model.add_adapter(peft.LoraConfig(...))`.
        pooling: `"mean"` or `"first"`; default as in the checkpoint, else `"mean"`.
        dropout: the `attention_dropout` of models whose configuration has no dropout, such as
            ModernBERT; dropout twins need some.
        options: for `from_pretrained` of the model, such as `revision`, `token`, `dtype` or
            `attn_implementation`.

    Raises:
        OSError: the model can't be loaded, or its weights do not fit it.
        ValueError: the pooling is unknown, or the tokenizer is that of another model.
    """
    name, options = (default_encoder(), options) if name is None else resolve_name(name, options)
    hub = hub_options(options)
    # `Transformer` loads the model again, without checks.
    check_checkpoint(name, **options)
    kind = check_pooling(pooling or read_checkpoint_settings(name, **hub).pooling or "mean")
    adapter = adapter_at(name, **options)
    if adapter is not None:
        name, hub = adapter.base, adapter.base_hub
    config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub)
    changes: dict[str, Any] = {}
    if not has_dropout(config) and hasattr(config, "attention_dropout"):
        changes["attention_dropout"] = dropout
    transformer = Transformer(
        name,
        model_kwargs={"dtype": "float32", "use_safetensors": True, **without_hub(options), **hub},
        config_kwargs={**hub, **changes},
        processor_kwargs=hub,
    )
    if adapter is not None:
        merge_adapter(transformer.auto_model, adapter)
        source, tokenizer_hub = tokenizer_source(adapter)
        transformer.processor = AutoTokenizer.from_pretrained(
            source, trust_remote_code=False, **tokenizer_hub
        )
    vocabulary = transformer.auto_model.get_input_embeddings().num_embeddings
    check_vocabulary(name, transformer.tokenizer, vocabulary)
    transformer.max_seq_length = model_limit(transformer.auto_model, transformer.tokenizer)
    card = SentenceTransformerModelCardData(
        local_files_only=Path(name).exists(),
        generate_widget_examples=False,
        tags=["narrative-salience"],
    )
    pooled = PoolingModule(transformer.get_embedding_dimension(), pooling_mode=_ST_POOLINGS[kind])
    return SentenceTransformer(modules=[transformer, pooled], model_card_data=card)


def has_dropout(config: Any) -> bool:
    """Whether an encoder of this configuration has any dropout; that of a classifier head does not
    count."""
    settings = {
        key: value
        for key, value in config.to_dict().items()
        if "dropout" in key and "classifier" not in key
    }
    return any(isinstance(value, float) and value > 0 for value in settings.values())


def checked_rows(
    data: Any, name: str, silent: bool, skipped: Collection[str] = ()
) -> tuple[Any, str | None]:
    """Check the rows of a data set of narrative twins or of a dict of several; streams are checked
    as they are read. `name` is the name of the data in errors; `silent` hides the progress bar of
    data with more than 10,000 rows; `skipped` are the names of data sets in a dict that have other
    rows and are not checked.

    Returns:
        The data, and the name of the first row without a twin; None if all have twins, and for
        streams.

    Raises:
        RowError: a row is invalid, or there are no rows; names the data set and the row.
    """
    if isinstance(data, dict):
        if not data:
            raise RowError(name, "there are no rows; at least one data set is needed")
        checked = {
            key: (rows, None) if key in skipped else checked_rows(rows, f"{name}[{key!r}]", silent)
            for key, rows in data.items()
        }
        twinless = next((row for _, row in checked.values() if row is not None), None)
        return {key: rows for key, (rows, _) in checked.items()}, twinless
    if isinstance(data, IterableDataset):

        def check(row: dict[str, Any], number: int) -> dict[str, Any]:
            check_twins_row(row, f"{name}, row {number}")
            return row

        return data.map(check, with_indices=True, features=data.features), None
    if not isinstance(data, Dataset):
        return data, None
    twinless = None
    shown = not silent and len(data) > 10_000
    for number, row in enumerate(tqdm(data, desc="checking rows", disable=not shown)):
        check_twins_row(row, f"{name}, row {number}")
        if twinless is None and row.get("twin") is None:
            twinless = f"{name}, row {number}"
    if not len(data):
        raise RowError(name, "there are no rows; at least one is needed")
    return data, twinless


def require_dropout(model: SentenceTransformer, twinless: str | None) -> None:
    """Raise a ValueError if a model has no dropout, without which both dropout twins have the same
    vector. `twinless` names the row because of which dropout twins are needed; None if
    `twins="dropout"`."""
    transformer: Any = model[0].auto_model
    config = transformer.config
    if not has_dropout(config):
        reason = "twins='dropout'" if twinless is None else f"a row without a twin ({twinless})"
        raise ValueError(
            f"{reason} needs an encoder with dropout, but all dropouts of this {config.model_type}"
            " are 0; load it with trainable_encoder(...), or with"
            " config_kwargs={'attention_dropout': 0.1}"
        )


def last_complete_checkpoint(folder: Path) -> str | None:
    """The last checkpoint in a folder with a valid trainer state, the file that is written last.
    Raises a ValueError if there are checkpoints, but none is complete."""
    found = sorted(folder.glob("checkpoint-*"), key=_step, reverse=True)
    for checkpoint in found:
        try:
            json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
            return str(checkpoint)
        except (OSError, ValueError):
            logger.warning(
                "%s is incomplete (the run stopped while saving it) and is skipped", checkpoint
            )
    if found:
        raise ValueError(f"no checkpoint in {folder} is complete; start over without resuming")
    return None


def check_checkpoint_files(checkpoint: Path, args: Any, random_state: bool = True) -> None:
    """Check that a checkpoint of a trainer has all files that the next steps depend on, each of
    them complete and without code. Raises ValueError with the name of a file; transformers would go
    on without it, to other weights.

    Args:
        checkpoint: the folder.
        args: the arguments of the trainer.
        random_state: whether the random state of this process is among the files.
    """
    ranked = f"rng_state_{args.process_index}.pth" if args.world_size > 1 else "rng_state.pth"
    for name in (OPTIMIZER_NAME, SCHEDULER_NAME, *([ranked] if random_state else [])):
        file = checkpoint / name
        # torch saves zip archives, whose index is at the end.
        problem = (
            "missing"
            if not file.is_file()
            else None
            if zipfile.is_zipfile(file)
            else "incomplete or damaged"
        )
        if problem:
            raise ValueError(
                f"{file} is {problem}, so training would not go on as if it had not been"
                " interrupted; resume from another checkpoint, or start over"
            )
        with safe_globals():
            code = torch.serialization.get_unsafe_globals_in_checkpoint(file)
        if code:
            raise ValueError(
                f"{file} names code to execute ({sorted(code)[0]}), which no trainer saves, so it"
                " is not read; resume from a checkpoint of your own, or start over"
            )
    if not any((checkpoint / name).is_file() for name in (*_MODEL_FILES, *_ADAPTER_FILES)):
        raise ValueError(
            f"{checkpoint} has no weights in safetensors ({_MODEL_FILES[0]}), the only ones that"
            " are read; resume from another checkpoint, or start over"
        )


def _step(checkpoint: Path) -> int:
    step = checkpoint.name.removeprefix("checkpoint-")
    return int(step) if step.isdecimal() else -1

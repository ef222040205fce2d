"""What training starts from: encoders with pooling and dropout, and complete checkpoints."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerModelCardData
from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from narrative_twins.encoder.loading import (
    SAFELY,
    Pooling,
    adapter_at,
    check_checkpoint,
    check_pooling,
    default_encoder,
    hub_options,
    load_tokenizer,
    merge_adapter,
    read_checkpoint_settings,
    resolve_name,
    without_hub,
)
from narrative_twins.encoder.tokenizer import check_vocabulary, model_limit

logger = logging.getLogger(__name__)

_WEIGHTS = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME, "adapter_model.safetensors")
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
        options: for `from_pretrained` of the model, such as `revision`, `token` or
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
    tokenizer = load_tokenizer(name, **hub)
    if adapter is not None:
        name, hub = adapter.base, adapter.base_hub
    config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub)
    changes: dict[str, Any] = {}
    if not has_dropout(config) and hasattr(config, "attention_dropout"):
        changes["attention_dropout"] = dropout
    transformer = Transformer(
        name,
        model_kwargs={"dtype": "float32", **SAFELY, **without_hub(options), **hub},
        config_kwargs={**hub, **changes},
        processor_kwargs=hub,
    )
    if adapter is not None:
        merge_adapter(transformer.auto_model, adapter)
        transformer.processor = tokenizer
    check_vocabulary(name, transformer.tokenizer, transformer.auto_model)
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
    return any(
        isinstance(value, float) and value > 0
        for key, value in config.to_dict().items()
        if "dropout" in key and "classifier" not in key
    )


def require_dropout(model: Any, reason: str) -> None:
    """Raise a ValueError if a model has no dropout, without which dropout twins have the same
    vector. `reason` says what needs them."""
    config = model[0].auto_model.config
    if not has_dropout(config):
        raise ValueError(
            f"{reason} needs an encoder with dropout, but all dropouts of this {config.model_type}"
            " are 0; load it with trainable_encoder(...), or with"
            " config_kwargs={'attention_dropout': 0.1}"
        )


def check_precision(model: torch.nn.Module) -> None:
    """Raise a ValueError if trained weights are in a precision that rounds small updates away."""
    for weight in model.parameters():
        if weight.requires_grad and weight.dtype in (torch.bfloat16, torch.float16):
            raise ValueError(
                f"the weights are in {str(weight.dtype).removeprefix('torch.')}, in which small"
                " updates are rounded away; load the encoder in float32, and set bf16=True in the"
                " arguments to multiply in bfloat16"
            )


def last_complete_checkpoint(folder: Path) -> str | None:
    """The last checkpoint in a folder with a valid trainer state, the file that is written last.
    Raises a ValueError if there are checkpoints, but none is complete."""

    def step(checkpoint: Path) -> int:
        number = checkpoint.name.removeprefix("checkpoint-")
        return int(number) if number.isdecimal() else -1

    found = sorted(folder.glob("checkpoint-*"), key=step, reverse=True)
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


def check_checkpoint_files(checkpoint: Path, args: Any) -> None:
    """Raise a ValueError if a checkpoint lacks a file that the next steps depend on: without it
    `transformers` would resume with other weights. Warn if it was saved by another number of
    processes than those of the arguments."""
    states = [file.name for file in checkpoint.glob("rng_state*.pth")]
    alone = args.world_size == 1
    own = "rng_state.pth" if alone else f"rng_state_{args.process_index}.pth"
    needed = [OPTIMIZER_NAME, SCHEDULER_NAME]
    # With a disk for each node, a node has only the random states of its own processes.
    if not states or len(states) == args.world_size or args.save_on_each_node:
        needed.append(own)
    else:
        logger.warning(
            "%s was saved by %d process(es), and this run has %d: it resumes from its weights, but"
            " with other batches and random choices than without the interruption; for as many rows"
            " in a batch, change per_device_train_batch_size",
            checkpoint,
            len(states),
            args.world_size,
        )
    missing = [name for name in needed if not (checkpoint / name).is_file()]
    if missing:
        raise ValueError(
            f"{checkpoint / missing[0]} is missing, so the run can't be resumed as if it had not"
            " been interrupted; resume from another checkpoint, or start over"
        )
    if not any((checkpoint / name).is_file() for name in _WEIGHTS):
        raise ValueError(
            f"{checkpoint} has no weights in safetensors ({SAFE_WEIGHTS_NAME}), the only ones that"
            " are read; resume from another checkpoint, or start over"
        )

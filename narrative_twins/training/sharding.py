"""Training with weights, gradients and optimizer states that are shared out over processes (FSDP,
version 2)."""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist
from transformers import Trainer

from narrative_twins.encoder.adapters import has_adapter
from narrative_twins.training.gathering import is_sharded
from narrative_twins.training.resuming import FSDP_CONFIG
from narrative_twins.training.window_loss import WindowLoss

logger = logging.getLogger(__name__)


class ShardedTraining:
    """Mixin for the trainer of sentence-transformers, for training with FSDP: what is evaluated and
    saved is the whole encoder. Put it before `StoryTrainer` among the base classes."""

    args: Any
    accelerator: Any
    model: Any
    evaluator: Any
    is_fsdp_enabled: bool

    def create_optimizer(self, *args: Any, **options: Any) -> Any:
        """Create the optimizer as the trainer does, without the weights of a pooler, such as that
        of BERT."""
        pooler = getattr(self.model[0].auto_model, "pooler", None)
        if self.is_fsdp_enabled and isinstance(pooler, torch.nn.Module):
            # Windows are pooled without it, so it has no gradient and no state in a checkpoint, and
            # loading the shards of one would fail.
            pooler.requires_grad_(False)
        return super().create_optimizer(*args, **options)  # type: ignore[misc]

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the encoder as `transformers.Trainer.save_model` does; with FSDP all of its weights,
        also if checkpoints have shards."""
        if not self.is_fsdp_enabled:
            super().save_model(output_dir, _internal_call)  # type: ignore[misc]
            return
        # The optimizer's state refers to the sharded model, so the whole one only takes its place
        # for a moment.
        sharded, whole = self.model, whole_model(self.model, on_all=False)
        if self.args.should_save and whole is not None:
            # The card of sentence-transformers tries the model out.
            self.model = whole.model_card_data.model = whole
            try:
                super()._save(output_dir)  # type: ignore[misc]
            finally:
                self.model = whole.model_card_data.model = sharded
        if self.args.push_to_hub and not _internal_call:
            self.push_to_hub(commit_message="Model save", revision=self.args.hub_revision)  # type: ignore[attr-defined]

    def evaluation_loop(self, *args: Any, **options: Any) -> Any:
        """Evaluate as the trainer does, and call the evaluator with the whole encoder: evaluators
        are free to make forward passes that other processes do not."""
        evaluator = self.evaluator
        if self.is_fsdp_enabled and evaluator is not None:
            self.evaluator = lambda model, **settings: evaluator(whole_model(model), **settings)
        try:
            return super().evaluation_loop(*args, **options)  # type: ignore[misc]
        finally:
            self.evaluator = evaluator

    def _load_from_checkpoint(self, checkpoint: str, model: Any = None) -> None:
        """Load the weights of a checkpoint. sentence-transformers would read a whole model, without
        its shards."""
        if self.is_fsdp_enabled:
            Trainer._load_from_checkpoint(self, checkpoint, model)
        else:
            super()._load_from_checkpoint(checkpoint)  # type: ignore[misc]


def whole_model(model: Any, on_all: bool = True) -> Any:
    """A sharded `SentenceTransformer` with all weights of its transformer; another model as it is.
    All processes call this together.

    Args:
        model: the model, whose other modules are shared.
        on_all: whether all processes need the model, on their devices; else the first one has it,
            on its CPU, and others have None.
    """
    if not is_sharded(model):
        return model
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    sharded = model[0].auto_model
    weights = get_model_state_dict(
        sharded, options=StateDictOptions(full_state_dict=True, cpu_offload=not on_all)
    )
    if not on_all and dist.get_rank() != 0:
        return None
    with torch.random.fork_rng(devices=[]):  # for the first weights, which are replaced
        transformer = _kind(sharded)(deepcopy(sharded.config))
    transformer.load_state_dict(weights)
    if on_all:
        transformer.to(sharded.device)
    transformer.train(sharded.training)
    first = _without_hooks(model[0], {"model": transformer})
    return _without_hooks(model, {"0": first})


def _kind(module: torch.nn.Module) -> Any:
    """The class of a module; sharding puts another one in its place."""
    from torch.distributed.fsdp import FSDPModule

    return next(kind for kind in type(module).__mro__ if not issubclass(kind, FSDPModule))


def _without_hooks(module: torch.nn.Module, changed: dict[str, torch.nn.Module]) -> Any:
    """A module that shares everything with another one but some submodules, and is not sharded when
    it is called."""
    kind = _kind(module)
    found = kind.__new__(kind)
    found.__dict__.update(module.__dict__)
    found._modules = {**module._modules, **changed}
    found._forward_pre_hooks, found._forward_hooks = OrderedDict(), OrderedDict()
    return found


def set_sharding(trainer: Any, transformer: Any, losses: Iterable[torch.nn.Module]) -> None:
    """Have FSDP, if it is on, shard a transformer layer by layer. Raises a ValueError if a setting
    does not work with FSDP.

    Args:
        trainer: the trainer, with its accelerator.
        transformer: the `transformers` model of its encoder.
        losses: its losses, one for each data set.
    """
    if not trainer.is_fsdp_enabled:
        if trainer.args.fsdp or os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true":
            logger.warning(
                "FSDP is set but not used, as accelerate shards weights only on several processes"
                " with an accelerator each: every process has the whole model and the whole state"
                " of the optimizer"
            )
        return
    plugin = trainer.accelerator.state.fsdp_plugin
    if plugin.fsdp_version != 2:
        raise ValueError(
            f"FSDP of version {plugin.fsdp_version} is set; set fsdp_version: 2, as in"
            f" {FSDP_CONFIG}"
        )
    if plugin.state_dict_type.name != "SHARDED_STATE_DICT":
        raise ValueError(
            f"fsdp_state_dict_type: {plugin.state_dict_type.name} is set, and runs can't be resumed"
            " from checkpoints of this kind; set SHARDED_STATE_DICT, with which the whole encoder"
            " is saved as well"
        )
    if has_adapter(transformer):
        raise ValueError(
            "FSDP does not work with an adapter; train without FSDP, or without the adapter"
        )
    low = {weight.dtype for weight in transformer.parameters() if weight.dtype != torch.float32}
    if low and trainer.accelerator.mixed_precision == "no":
        raise ValueError(
            f"FSDP does not work with weights in {str(low.pop()).removeprefix('torch.')}; load the"
            " encoder with dtype='float32', and set bf16=True for products in bfloat16"
        )
    found = [getattr(loss, "loss", loss) for loss in losses]
    others = [type(loss).__name__ for loss in found if not isinstance(loss, WindowLoss)]
    if len(found) > 1 and others:
        raise ValueError(
            f"with FSDP, several data sets need NarrativeTwinsLoss or SalienceLoss, and {others[0]}"
            " makes another number of forward passes; train on one data set at a time, or without"
            " FSDP"
        )
    if len(found) > 1 and len({getattr(loss, "mini_batch_size", "none") for loss in found}) > 1:
        raise ValueError(
            "with FSDP all losses need the same mini_batch_size, as processes make their forward"
            " passes together and may have batches of different data sets"
        )
    if plugin.transformer_cls_names_to_wrap is None:
        # accelerate looks for these names in the `SentenceTransformer`, which has none.
        present = {type(module).__name__ for module in transformer.modules()}
        plugin.transformer_cls_names_to_wrap = sorted(
            present & set(transformer._no_split_modules or [])
        )

"""What a training run takes, before it starts: parameters, tokens, steps, and memory by arithmetic,
which the first step checks."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from narrative_twins.data.rows import is_nested
from narrative_twins.training.losses import NarrativeTwinsLoss

GB = 1e9


@dataclass(frozen=True)
class TrainingMemory:
    """The memory of a step of training, in bytes: `weights`; `copies` of trained weights in
    bfloat16; `gradients`; the states of the `optimizer`; and `activations`, which are kept for the
    backward pass."""

    weights: int
    copies: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def fixed(self) -> int:
        """The memory without activations."""
        return self.weights + self.copies + self.gradients + self.optimizer

    @property
    def total(self) -> int:
        """All memory."""
        return self.fixed + self.activations


def training_memory(
    model: Any, tokens: int, *, bf16: bool = False, recomputed: bool = False, shards: int = 1
) -> TrainingMemory:
    """Return the memory that a step of training takes, by arithmetic.

    A trained weight in float32 takes 4 bytes, its gradient 4, and AdamW's two states 8: 16 bytes,
    and 2 for its copy in bfloat16 under `bf16` (Rajbhandari et al., 2020, "ZeRO", section 3.1).
    Frozen weights take their own bytes only.

    Of each layer, activations are kept as in Korthikanti et al., 2022, "Reducing Activation
    Recomputation in Large Transformer Models", section 4.1, for attention that keeps no matrix of
    scores (sdpa or flash attention). With e bytes a number (4, or 2 under `bf16`), hidden size h, q
    and k numbers of a token in all heads of the queries and of the keys, and f in the feed-forward
    layer, a layer keeps for each token

        e (2h + 2q + 2k + mf) + 8h + 2h bytes:

    the inputs of attention and feed-forward layer, queries, keys, values and the output of
    attention, and m = 2 numbers per f (m = 4 if the layer has a gate); the inputs of two norms in
    float32; and two dropout masks. With `recomputed` (gradient checkpointing), all layers but one
    keep their input in float32 alone, 4h bytes. Not counted: padding, what libraries and kernels
    take, fragments, the loss.

    Args:
        model: the `transformers` model, on any device, also `meta`.
        tokens: tokens that are encoded at a time.
        bf16: whether products are in bfloat16.
        recomputed: whether activations are computed again in the backward pass.
        shards: among how many processes FSDP divides all but the activations. The layer whose
            weights are gathered is not counted.
    """
    config = model.config
    parameters = list(model.parameters())
    trained = sum(weight.numel() for weight in parameters if weight.requires_grad)
    hidden, layers = config.hidden_size, config.num_hidden_layers
    size = getattr(config, "head_dim", None) or hidden // config.num_attention_heads
    queries = size * config.num_attention_heads
    keys = size * (getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
    has_gate = config.model_type.startswith("modernbert") or any(
        name.endswith("gate_proj") for name, _ in model.named_modules()
    )
    number = 2 if bf16 else 4
    feed_forward = (4 if has_gate else 2) * config.intermediate_size
    layer = number * (2 * hidden + 2 * queries + 2 * keys + feed_forward) + 10 * hidden
    per_token = (layers - 1) * 4 * hidden + layer if recomputed else layers * layer
    return TrainingMemory(
        weights=sum(weight.numel() * weight.element_size() for weight in parameters) // shards,
        copies=2 * trained // shards if bf16 else 0,
        gradients=4 * trained // shards,
        optimizer=8 * trained // shards,
        activations=tokens * per_token,
    )


@dataclass(frozen=True)
class TrainingEstimate:
    """What a training run takes.

    Attributes:
        parameters, trained: numbers of all weights, and of those that are trained.
        rows, texts, tokens: a step's, on all processes; `tokens` with padding. They are measured on
            the first rows of the data set with the most tokens.
        processes: how many processes share a step.
        negatives: how many windows a window is compared with at most, besides its twin; None if the
            loss has none.
        texts_at_a_time: the texts that a process keeps the activations of.
        steps, epochs: of the run.
        memory: of one process.
    """

    parameters: int
    trained: int
    rows: int
    texts: int
    tokens: int
    processes: int
    negatives: int | None
    texts_at_a_time: int
    steps: int
    epochs: float
    memory: TrainingMemory

    def __str__(self) -> str:
        """Return the estimate in words, in several lines."""
        share = f" ({self.rows // self.processes} on each of {self.processes} processes)"
        rows = f"{self.rows} rows{share if self.processes > 1 else ''}"
        negatives = "" if self.negatives is None else f"; up to {self.negatives:,} negatives each"
        memory = self.memory
        parts = {
            "weights": memory.weights + memory.copies,
            "gradients": memory.gradients,
            "optimizer": memory.optimizer,
            f"activations of {self.texts_at_a_time} texts": memory.activations,
        }
        listed = ", ".join(f"{name} {size / GB:.2f}" for name, size in parts.items())
        return "\n".join(
            [
                f"Parameters: {self.parameters:,}, of which {self.trained:,} are trained.",
                f"A step: {rows}, {self.texts:,} texts, {self.tokens:,} tokens{negatives}.",
                f"Steps: {self.steps:,} ({self.epochs:.2f} epochs).",
                f"Memory by arithmetic: {memory.total / GB:.2f} GB ({listed})"
                f"{' in each process' if self.processes > 1 else ''}.",
            ]
        )


def estimate_training(trainer: Any) -> TrainingEstimate:
    """Return what the run of a trainer will take. Its data set is not changed, and no random number
    is drawn."""
    args = trainer.args
    first, batch = _largest_batch(trainer)
    count = len(first)
    texts, longest = _texts(batch), _longest(batch)
    at_a_time = min(texts, args.mini_batch_size or texts)
    accumulated, processes = args.gradient_accumulation_steps, args.world_size
    per_epoch = max(math.ceil(len(trainer.get_train_dataloader()) / accumulated), 1)
    steps = args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs * per_epoch)
    factor = processes * accumulated
    weights = list(trainer.transformer.parameters())
    return TrainingEstimate(
        parameters=sum(weight.numel() for weight in weights),
        trained=sum(weight.numel() for weight in weights if weight.requires_grad),
        rows=count * factor,
        texts=texts * factor,
        tokens=_tokens(batch) * factor,
        processes=processes,
        negatives=_negatives(trainer, first[0], batch, count),
        texts_at_a_time=at_a_time,
        steps=steps,
        epochs=steps / per_epoch,
        memory=training_memory(
            trainer.transformer,
            min(at_a_time * longest, _tokens(batch)),
            bf16=args.bf16 or args.fp16,
            # The name in transformers from 5.20 on, and the earlier one.
            recomputed=getattr(args, "activation_checkpointing", False)
            or getattr(args, "gradient_checkpointing", False),
            shards=processes if trainer.is_fsdp_enabled else 1,
        ),
    )


def _largest_batch(trainer: Any) -> tuple[list[Any], Mapping[str, Any]]:
    """Return the first rows of a data set of a trainer, and their batch: of several data sets, the
    one whose first batch has the most tokens."""
    args, data = trainer.args, trainer.train_dataset
    batches = []
    for rows in data.values() if isinstance(data, Mapping) else [data]:
        nested = args.window_batch_size is not None and is_nested(rows[0].get("story"))
        count = args.window_batch_size if nested else args.train_batch_size
        first = [rows[index] for index in range(min(count, len(rows)))]
        batches.append((first, trainer.data_collator(first)))
    return max(batches, key=lambda each: _tokens(each[1]))


def _masks(batch: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the attention masks of a batch, each of shape (texts, tokens)."""
    return [value for name, value in batch.items() if name.endswith("attention_mask")]


def _tokens(batch: Mapping[str, Any]) -> int:
    """Return the number of tokens of a batch, with padding."""
    return sum(mask.numel() for mask in _masks(batch))


def _texts(batch: Mapping[str, Any]) -> int:
    """Return the number of texts of a batch."""
    return sum(len(mask) for mask in _masks(batch))


def _longest(batch: Mapping[str, Any]) -> int:
    """Return the number of tokens of the longest text of a batch."""
    return max((mask.shape[1] for mask in _masks(batch)), default=0)


def _negatives(
    trainer: Any, row: Mapping[str, Any], batch: Mapping[str, Any], rows: int
) -> int | None:
    """Return how many windows a window of a `batch` of `rows` rows is compared with at most,
    besides its twin; None unless the rows have the loss of narrative twins."""
    losses = trainer.loss
    loss = losses[row["dataset_name"]] if isinstance(losses, dict) else losses
    part = next((each for each in loss.modules() if isinstance(each, NarrativeTwinsLoss)), None)
    if part is None:
        return None
    windows = int(batch["texts_window_ids"].max()) + 1
    texts = len(batch["texts_side"])
    if not part.in_batch_negatives:
        return round(texts / rows) * windows - 2
    shared = trainer.args.world_size if part.gather_across_devices else 1
    negatives = texts * shared * windows - 2
    return negatives if part.in_story_negatives else negatives - 2 * (windows - 1)


class EstimateCallback(TrainerCallback):
    """Prints the memory that the first step took beside the memory by arithmetic, and the time that
    is left after some steps. Memory of a process on a CPU is measured on Linux only."""

    TIMED = 5
    """The number of steps after which the time is told; the first, which is slow, is not timed."""

    def __init__(self, estimate: TrainingEstimate) -> None:
        self.estimate = estimate
        self.before: int | None = None
        self.started = 0.0
        self.steps = 0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the memory before the first step."""
        if self.steps == 0:
            self.before = _peak_memory(args.device, reset=True)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Print what is known after this step."""
        self.steps += 1
        if not state.is_world_process_zero:
            return
        if self.steps == 1:
            self.started = time.monotonic()
            peak = _peak_memory(args.device)
            if peak is not None and self.before is not None:
                memory = self.estimate.memory
                # Weights are in the memory before the first step.
                expected = memory.total - memory.weights
                print(
                    f"\nThe first step took {(peak - self.before) / GB:.2f} GB besides the weights;"
                    f" {expected / GB:.2f} GB by arithmetic.",
                    file=sys.stderr,
                )
        elif self.steps == self.TIMED + 1:
            seconds = (time.monotonic() - self.started) / self.TIMED
            left = (state.max_steps - state.global_step) * seconds
            print(
                f"\n{seconds:.2f} seconds a step; {_duration(left)} left, without validation.",
                file=sys.stderr,
            )


def _duration(seconds: float) -> str:
    """Return a time in words: `"40 seconds"`, `"35 minutes"` or `"2.5 hours"`."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _peak_memory(device: torch.device, *, reset: bool = False) -> int | None:
    """Return the peak of the memory since the last call with `reset`, in bytes; with `reset`, the
    memory now. On a GPU it is the memory of its tensors, on a CPU the memory of the process. None
    where it can't be measured."""
    if device.type == "cuda":
        if reset:
            torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.max_memory_allocated(device)
    process = Path("/proc/self")
    with suppress(OSError, StopIteration, ValueError):
        if reset:  # Linux sets the peak to the memory now.
            (process / "clear_refs").write_text("5", encoding="ascii")
        lines = (process / "status").read_text(encoding="utf-8").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return None

"""Base of the losses on vectors of windows: how texts are encoded, with or without a cache of
gradients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from math import inf
from typing import Any

import torch
from sentence_transformers.base.losses.gradcache import CachedLossMixin, RandContext
from torch import Tensor

from narrative_twins.encoder.checkpoint import module_settings
from narrative_twins.encoder.pooling import Pooling, check_pooling, pool_windows
from narrative_twins.training.gathering import is_sharded, same_number_of_texts

PASS_TOKENS = {True: 2_560, False: 1_000_000}
"""Maximum padded tokens per forward pass, on a CPU (True) and on other devices (False). A CPU is
fastest if the token states fit its caches, and more passes cost it nothing; on other devices each
pass has a high overhead."""


class WindowLoss(CachedLossMixin, torch.nn.Module):
    """A loss on the vectors of the windows of texts.

    Args:
        model: the `SentenceTransformer` to train, a transformer and its pooling.
        mini_batch_size: encode this many texts at a time and cache gradients of the embeddings (Gao
            et al., 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
            Setup"), so that any batch fits into memory, for one more forward pass. None for no
            caching.

    Raises:
        ValueError: a setting is invalid, or the model pools neither by the mean nor by the first
            token.
    """

    def __init__(self, model: Any, mini_batch_size: int | None = None) -> None:
        super().__init__()
        if mini_batch_size is not None and mini_batch_size < 1:
            raise ValueError(f"mini_batch_size={mini_batch_size} is not a count of 1 or more")
        self.model = model
        self.pooling: Pooling = check_pooling(module_settings(model).pooling or "mean")
        # None turns caching off; the mixin itself allows only numbers.
        self.mini_batch_size = mini_batch_size  # type: ignore[assignment]
        self.uses_gradient_cache = mini_batch_size is not None

    @abstractmethod
    def loss_of_vectors(self, vectors: Tensor, layout: Any) -> Tensor:
        """The loss of the window vectors of a batch, shape (texts, W, D); `layout` says what they
        are."""

    def loss_of_texts(self, texts: dict[str, Tensor], layout: Any) -> Tensor:
        """The loss of the texts of a batch: `input_ids`, `attention_mask` and `window_ids` (-1: not
        pooled)."""
        if self.uses_gradient_cache:
            # The mixin passes its second argument on to `calculate_loss` as `labels`.
            return self.forward_cached(
                [same_number_of_texts(texts) if is_sharded(self.model) else texts], layout
            )
        return self.loss_of_vectors(self.embed(texts, count_windows(texts)), layout)

    def embed_minibatch(
        self,
        sentence_feature: dict[str, Tensor],
        begin: int,
        end: int,
        with_grad: bool,
        copy_random_state: bool,
        random_state: RandContext | None = None,
    ) -> tuple[Tensor, RandContext | None]:
        """Window vectors of the texts `[begin, end)` of a batch, shape (texts, W, D), and the
        random state before."""
        part = {key: value[begin:end] for key, value in sentence_feature.items()}
        with random_state or nullcontext(), torch.set_grad_enabled(with_grad):
            state = RandContext(*part.values()) if copy_random_state else None
            return self.embed(part, count_windows(sentence_feature)), state

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Any = None, *, with_backward: bool = False
    ) -> Tensor:
        """The loss of window vectors from `embed_minibatch`; `labels` is the layout of their
        batch."""
        loss = self.loss_of_vectors(torch.cat(reps[0]), labels)
        if with_backward:
            torch.autograd.backward(loss)
            loss = loss.detach()
        return loss

    def embed(self, texts: dict[str, Tensor], windows: int) -> Tensor:
        """Window vectors of texts, shape (texts, W, D)."""
        ids, mask, window_ids = (
            texts[name] for name in ("input_ids", "attention_mask", "window_ids")
        )
        vectors, indices = [], []
        # Processes exchange sharded weights in each pass, so all of them make one.
        limit = inf if is_sharded(self.model) else PASS_TOKENS[ids.device.type == "cpu"]
        # Encode texts of similar length together, with little padding; then restore their order.
        for part, longest in batches_by_length(mask.sum(dim=1), limit):
            features = {"input_ids": ids[part, :longest], "attention_mask": mask[part, :longest]}
            output = self.model(features)
            # `MatryoshkaLoss` shortens the vectors of texts; the means of states are shortened as
            # the states are.
            states = output["token_embeddings"][..., : output["sentence_embedding"].shape[-1]]
            vectors.append(
                pool_windows(states, window_ids[part, :longest], windows, self.pooling)[0]
            )
            indices.append(part)
        return torch.cat(vectors)[torch.cat(indices).argsort()]


def batches_by_length(lengths: Tensor, tokens: float) -> Iterator[tuple[Tensor, int]]:
    """Yield indices of texts, short ones first, in batches of about `tokens` padded tokens, with
    the longest length."""
    order = lengths.argsort()
    sizes = lengths[order].tolist()
    start = 0
    for stop in range(1, len(sizes) + 1):
        # End the batch before text `stop` if with this text, the longest so far, it would exceed
        # the limit.
        if stop == len(sizes) or (stop + 1 - start) * sizes[stop] > tokens:
            yield order[start:stop], sizes[stop - 1]
            start = stop


def count_windows(texts: dict[str, Tensor]) -> int:
    """The number of windows of the texts of a batch."""
    return int(texts["window_ids"].max()) + 1

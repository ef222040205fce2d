"""The twins loss: InfoNCE over windows of stories, their twins and their distractors; and
`WindowLoss`, the base of all losses on vectors of windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
import torch.distributed as dist
from sentence_transformers.base.losses.gradcache import CachedLossMixin, RandContext
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.util import all_gather_with_grad, cos_sim, get_rank, get_world_size
from torch import Tensor

from narrative_twins.data.sources import NARRATIVE_TWINS
from narrative_twins.encoder.loading import Pooling, check_pooling, module_settings
from narrative_twins.encoder.passes import pool_windows
from narrative_twins.training.batches import DISTRACTOR, DISTRACTOR_TWIN, STORY, TWIN

DistractorLoss: TypeAlias = Literal["joint", "separate"]
SETTINGS = (
    *("temperature", "distractors", "in_story_negatives", "in_batch_negatives"),
    *("distractor_loss", "gather_across_devices", "mini_batch_size"),
)
"""The settings of `NarrativeTwinsLoss`, which are also arguments of the trainer."""

CPU_PASS_TOKENS = 2_560
"""Maximum padded tokens per forward pass on a CPU, which is fastest if the token states fit its
caches; more passes cost nothing there."""
PASS_TOKENS = 1_000_000
"""The same on other devices, where each pass has a high overhead."""


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
            raise ValueError(f"mini_batch_size={mini_batch_size} is not at least 1")
        self.model = model
        self.pooling: Pooling = check_pooling(module_settings(model).pooling or "mean")
        # None turns caching off; the mixin itself allows only numbers.
        self.mini_batch_size = mini_batch_size  # type: ignore[assignment]
        self.uses_gradient_cache = mini_batch_size is not None

    @abstractmethod
    def loss_of_vectors(self, vectors: Tensor, layout: Any) -> Tensor:
        """The loss of the window vectors of a batch, shape (texts, W, D); `layout` describes
        them."""

    def loss_of_texts(self, texts: dict[str, Tensor], layout: Any) -> Tensor:
        """The loss of the texts of a batch: `input_ids`, `attention_mask` and `window_ids` (-1: not
        pooled)."""
        if self.uses_gradient_cache:
            # The mixin passes its second argument on to `calculate_loss` as `labels`.
            return self.forward_cached([texts], layout)
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
        ids = texts["input_ids"]
        mask = texts["attention_mask"]
        window_ids = texts["window_ids"]
        vectors, indices = [], []
        limit = CPU_PASS_TOKENS if ids.device.type == "cpu" else PASS_TOKENS
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


class _Layout(NamedTuple):
    """Side and row of each text of a batch, shape (R,), and whether each of its windows has a
    token, shape (R, W)."""

    side: Tensor
    row: Tensor
    present: Tensor


class _Group(NamedTuple):
    """Windows that are compared with each other: the two sides a and b of the pairs, shape (N, D +
    3), and further negatives, shape (M, D + 3). The last three columns identify a window for
    `_is_compared`: its row and its pair of texts, with numbers that are unique over all processes,
    and its index in the text."""

    a: Tensor
    b: Tensor
    negatives: Tensor


class NarrativeTwinsLoss(WindowLoss):
    """Symmetric InfoNCE on cosine similarities of window embeddings.

    Let a be the windows of the stories of a batch and b those of their twins. For each window, the
    positive is the same window of the twin (or story); all other windows in a and b are negatives.
    Distractors that have a twin, in stories with one window, are pairs as well: a = [stories;
    distractors], b = [twins; distractor twins]. The windows of other distractors are negatives
    only. A pair of windows is left out if one of them has no token. The loss is the mean of two
    `MultipleNegativesRankingLoss` (directions query to document and query to query), with a and
    with b as queries.

    Batches are those of `TwinsCollator`; `NarrativeTwinsTrainer` uses both by default.

    Args:
        model: the `SentenceTransformer` to train, a transformer and its pooling.
        temperature: cosine similarities are divided by it.
        distractors: whether the distractors of a batch are used.
        in_story_negatives: whether other windows of the same story and its twin are negatives.
        in_batch_negatives: whether texts of other rows are negatives. Without them, a window is
            compared only with its own story, as far as `in_story_negatives` allows, and its own
            distractor.
        distractor_loss: `"joint"`: as above. `"separate"`: pairs of distractor and distractor twin
            have a loss of their own, and are not negatives of stories; the result is the mean of
            the losses of stories and of distractors. Distractors without a twin are not used then.
            Only for stories with one window.
        gather_across_devices: whether processes share negatives; the gradient is that of one
            process with all batches.
        mini_batch_size: see `WindowLoss`.

    Raises:
        ValueError: a setting is invalid, or the model pools neither by the mean nor by the first
            token.

    Example:
        ```python
        from narrative_twins import default_encoder
        from narrative_twins.training import NarrativeTwinsLoss
        from sentence_transformers import SentenceTransformer

        loss = NarrativeTwinsLoss(SentenceTransformer(default_encoder()), temperature=0.05)
        ```
    """

    def __init__(
        self,
        model: Any,
        temperature: float = 0.05,
        *,
        distractors: bool = True,
        in_story_negatives: bool = True,
        in_batch_negatives: bool = True,
        distractor_loss: DistractorLoss = "joint",
        gather_across_devices: bool = False,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__(model, mini_batch_size)
        if not temperature > 0:
            raise ValueError(f"temperature={temperature} is not above 0")
        if distractor_loss not in ("joint", "separate"):
            raise ValueError(
                f"distractor_loss={distractor_loss!r} is unknown; use 'joint' or 'separate'"
            )
        self.temperature = temperature
        self.distractors = distractors
        self.in_story_negatives = in_story_negatives
        self.in_batch_negatives = in_batch_negatives
        self.distractor_loss = distractor_loss
        self.gather_across_devices = gather_across_devices
        self._info_nce = MultipleNegativesRankingLoss(
            None,  # type: ignore[arg-type]
            scale=1 / temperature,
            similarity_fct=self._similarity,
            directions=("query_to_doc", "query_to_query"),
        )

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch from `TwinsCollator`, a scalar. Raises ValueError for other batches,
        and if the settings leave a batch without pairs or without negatives."""
        texts, *others = sentence_features
        if others or "side" not in texts:
            raise ValueError(
                "NarrativeTwinsLoss needs batches of TwinsCollator; train with"
                " NarrativeTwinsTrainer, or give data_collator=TwinsCollator(...) to the trainer of"
                " sentence-transformers"
            )
        if not self.distractors:
            kept = texts["side"] < DISTRACTOR
            texts = {key: value[kept] for key, value in texts.items()}
        windows = count_windows(texts)
        if self.distractor_loss == "separate" and windows > 1:
            raise ValueError(
                "distractor_loss='separate' needs stories with one window, since others have no"
                " distractor twins; use distractors=False to train without them"
            )
        # present[r, w]: whether text r has a token in window w.
        present = (
            texts["window_ids"].unsqueeze(2) == torch.arange(windows, device=texts["side"].device)
        ).any(dim=1)
        return self.loss_of_texts(texts, _Layout(texts["side"], texts["row"], present))

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        return {name: getattr(self, name) for name in (*SETTINGS, "pooling")}

    @property
    def citation(self) -> str:
        """The paper to cite."""
        return NARRATIVE_TWINS

    def loss_of_vectors(self, vectors: Tensor, layout: Any) -> Tensor:
        # Similarities and softmax are computed in float32, also under mixed precision.
        with torch.autocast(vectors.device.type, enabled=False):
            groups = self._groups(vectors, layout)
            if self.gather_across_devices and get_world_size() > 1:
                groups = [_Group(*map(gather_rows, group)) for group in groups]
            if not len(groups[0].a):
                raise ValueError(
                    "no window of the batch has a token in both twins; context_tokens may be too"
                    " small"
                )
            if not self.in_batch_negatives and not any(map(self._has_negatives, groups)):
                raise ValueError(
                    "no window of the batch has a negative; set in_batch_negatives, or use rows"
                    " with distractors or several windows"
                )
            losses = [self._group_loss(group) for group in groups if len(group.a)]
            return torch.stack(losses).mean()

    def _group_loss(self, group: _Group) -> Tensor:
        # Each direction has queries, their positives and perhaps additional negatives.
        extra = [group.negatives] if len(group.negatives) else []
        info_nce: Any = self._info_nce.compute_loss_from_embeddings
        loss: Tensor = info_nce([group.a, group.b, *extra], None)
        loss = loss + info_nce([group.b, group.a, *extra], None)
        return loss / 2

    def _groups(self, vectors: Tensor, layout: _Layout) -> list[_Group]:
        """The group of the stories of a batch and, with `distractor_loss="separate"`, that of the
        distractors."""
        side, row, present = layout
        stories, twins, distractors, distractor_twins = (
            torch.nonzero(side == kind).flatten()
            for kind in (STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN)
        )
        paired = torch.isin(row[distractors], row[distractor_twins])
        lone = distractors[~paired]
        distractors = distractors[paired]
        if self.distractor_loss == "separate":
            pairs = [(stories, twins, lone[:0]), (distractors, distractor_twins, lone[:0])]
        else:
            a = torch.cat([stories, distractors])
            pairs = [(a, torch.cat([twins, distractor_twins]), lone)]
        rows = row * get_world_size() + get_rank()

        def windows(texts: Tensor, kept: Tensor, pair: Tensor) -> Tensor:
            """The kept windows of texts, each followed by the numbers of its row, of its pair and
            of the window."""
            text, window = torch.nonzero(kept, as_tuple=True)
            tags = torch.stack([rows[texts][text], pair[text], window], dim=1)
            return torch.cat([vectors[texts][kept], tags.float()], dim=1)

        groups = []
        for a, b, negatives in pairs:
            both = present[a] & present[b]
            numbers = torch.arange(len(a), device=a.device) * get_world_size() + get_rank()
            no_pair = torch.full_like(negatives, -1)
            lone_windows = windows(negatives, present[negatives], no_pair)
            groups.append(
                _Group(windows(a, both, numbers), windows(b, both, numbers), lone_windows)
            )
        return groups

    def _similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """Cosine similarities of rows of a `_Group`; minus infinity, which takes them out of the
        softmax, for rows that are not compared."""
        similarities = cos_sim(a[:, :-3], b[:, :-3])
        if self.in_story_negatives and self.in_batch_negatives:
            return similarities
        return similarities.masked_fill(~self._is_compared(a, b), -torch.inf)

    def _is_compared(self, a: Tensor, b: Tensor) -> Tensor:
        """Whether each row of a is compared with each row of b, shape (rows of a, rows of b)."""
        same_row, same_pair, same_window = (
            a[:, None, column] == b[None, :, column] for column in (-3, -2, -1)
        )
        compared = torch.ones_like(same_row)
        if not self.in_batch_negatives:
            compared &= same_row
        if not self.in_story_negatives:
            compared &= ~same_pair | same_window
        return compared

    def _has_negatives(self, group: _Group) -> bool:
        """Whether any window is compared with more than itself and its positive."""
        compared = self._is_compared(group.a, torch.cat(group)).sum(dim=1)
        return bool((compared > 2).any())


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, which may have different numbers of them; gradients flow back to
    the process of each row."""
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(get_world_size())]
    dist.all_gather(counts, count)
    sizes = [int(size) for size in counts]
    # Gathering needs the same shape in all processes: pad to the largest, and remove the padding
    # afterwards.
    padded = torch.nn.functional.pad(rows, (0, 0, 0, max(sizes) - len(rows)))
    parts = (
        torch.split(all_gather_with_grad(padded), max(sizes)) if max(sizes) else [rows] * len(sizes)
    )
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

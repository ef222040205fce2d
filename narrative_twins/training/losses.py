"""The twins loss: InfoNCE over windows of stories, their twins and their distractors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from sentence_transformers.base.losses.gradcache import CachedLossMixin, RandContext
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.util import all_gather_with_grad, cos_sim, get_rank
from torch import Tensor

from narrative_twins.encoder.checkpoint import module_settings
from narrative_twins.encoder.pooling import Pooling, check_pooling, pool_windows
from narrative_twins.training.collator import DISTRACTOR, DISTRACTOR_TWIN, STORY, TWIN

PASS_TOKENS = {True: 2_560, False: 1_000_000}
"""Maximum padded tokens per forward pass, on a CPU (True) and on other devices (False). A CPU is fastest if the token
states fit its caches, and more passes cost it nothing; on other devices each pass has a high overhead."""
CITATION = """
@misc{sterner-narrative-twins,
    title={Contrastive Learning with Narrative Twins for Modeling Story Salience},
    author={Igor Sterner and Alex Lascarides and Frank Keller},
}
"""


class _Layout(NamedTuple):
    """Side and row of each text of a batch, shape (R,), and whether each of its windows has a token, shape (R, W)."""

    side: Tensor
    row: Tensor
    present: Tensor


class NarrativeTwinsLoss(CachedLossMixin, torch.nn.Module):
    """Symmetric InfoNCE on cosine similarities of window embeddings.

    Let a be the windows of the stories of a batch and b those of their twins. For each window, the positive is the same
    window of the twin (or story); all other windows in a and b are negatives. Distractors that have a twin, in stories
    with one window, are pairs as well: a = [stories; distractors], b = [twins; distractor twins]. The windows of other
    distractors are negatives only. A pair of windows is left out if one of them has no token. The loss is the mean of
    two `MultipleNegativesRankingLoss` (directions query to document and query to query), with a and with b as queries.

    Args:
        model: the `SentenceTransformer` to train, a transformer and its pooling.
        temperature: cosine similarities are divided by it.
        distractors: whether the distractors of a batch are used.
        in_story_negatives: whether other windows of the same story and its twin are negatives.
        gather_across_devices: whether processes share negatives; the gradient is that of one process with all batches.
        mini_batch_size: encode this many texts at a time and cache gradients of the embeddings (Gao et al., 2021,
            "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"), so that any batch fits into
            memory, for one more forward pass. None for no caching.

    Raises:
        ValueError: a setting is invalid, or the model pools neither by the mean nor by the first token.
    """

    def __init__(
        self,
        model: Any,
        temperature: float = 0.05,
        *,
        distractors: bool = True,
        in_story_negatives: bool = True,
        gather_across_devices: bool = False,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature={temperature} is not above 0")
        if mini_batch_size is not None and mini_batch_size < 1:
            raise ValueError(f"mini_batch_size={mini_batch_size} is not a count of 1 or more")
        self.model = model
        self.pooling: Pooling = check_pooling(module_settings(model).pooling or "mean")
        self.temperature = temperature
        self.distractors = distractors
        self.in_story_negatives = in_story_negatives
        self.gather_across_devices = gather_across_devices
        # None turns caching off; the mixin itself allows only numbers.
        self.mini_batch_size = mini_batch_size  # type: ignore[assignment]
        self.uses_gradient_cache = mini_batch_size is not None
        self._info_nce = MultipleNegativesRankingLoss(
            None,  # type: ignore[arg-type]
            scale=1 / temperature,
            similarity_fct=self._similarity,
            directions=("query_to_doc", "query_to_query"),
        )

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """The loss of a batch from `TwinsCollator`, a scalar."""
        (texts,) = sentence_features
        if not self.distractors:
            kept = texts["side"] < DISTRACTOR
            texts = {key: value[kept] for key, value in texts.items()}
        windows = _count_windows(texts)
        # present[r, w]: whether text r has a token in window w.
        present = (texts["window_ids"].unsqueeze(2) == torch.arange(windows, device=texts["side"].device)).any(dim=1)
        layout = _Layout(texts["side"], texts["row"], present)
        if self.uses_gradient_cache:
            # The mixin passes its second argument on to `calculate_loss` as `labels`.
            return self.forward_cached([texts], layout)  # type: ignore[arg-type]
        return self._loss(self._embed(texts, windows), layout)

    def embed_minibatch(
        self,
        sentence_feature: dict[str, Tensor],
        begin: int,
        end: int,
        with_grad: bool,
        copy_random_state: bool,
        random_state: RandContext | None = None,
    ) -> tuple[Tensor, RandContext | None]:
        """Window vectors of the texts `[begin, end)` of a batch, shape (texts, W, D), and the random state before."""
        part = {key: value[begin:end] for key, value in sentence_feature.items()}
        with random_state or nullcontext(), torch.set_grad_enabled(with_grad):
            state = RandContext(*part.values()) if copy_random_state else None
            return self._embed(part, _count_windows(sentence_feature)), state

    def calculate_loss(self, reps: list[list[Tensor]], labels: Any = None, *, with_backward: bool = False) -> Tensor:
        """The loss of window vectors from `embed_minibatch`; `labels` is the layout of their batch."""
        loss = self._loss(torch.cat(reps[0]), labels)
        if with_backward:
            torch.autograd.backward(loss)
            loss = loss.detach()
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        names = ("temperature", "distractors", "in_story_negatives", "gather_across_devices", "mini_batch_size")
        return {name: getattr(self, name) for name in names} | {"pooling": self.pooling}

    @property
    def citation(self) -> str:
        """The paper to cite."""
        return CITATION

    def _embed(self, texts: dict[str, Tensor], windows: int) -> Tensor:
        """Window vectors of texts, shape (texts, W, D)."""
        ids, mask, window_ids = (texts[name] for name in ("input_ids", "attention_mask", "window_ids"))
        vectors, indices = [], []
        # Encode texts of similar length together, with little padding; then restore their order.
        for part, longest in _batches_by_length(mask.sum(dim=1), PASS_TOKENS[ids.device.type == "cpu"]):
            features = {"input_ids": ids[part, :longest], "attention_mask": mask[part, :longest]}
            states = self.model(features)["token_embeddings"]
            vectors.append(pool_windows(states, window_ids[part, :longest], windows, self.pooling)[0])
            indices.append(part)
        return torch.cat(vectors)[torch.cat(indices).argsort()]

    def _loss(self, vectors: Tensor, layout: _Layout) -> Tensor:
        # Similarities and softmax are computed in float32, also under mixed precision.
        with torch.autocast(vectors.device.type, enabled=False):
            a, b, negatives = self._pairs_and_negatives(vectors, layout)
            if self.gather_across_devices and _processes() > 1:
                a, b, negatives = _gather(a), _gather(b), _gather(negatives)
            if not len(a):
                raise ValueError("no window of the batch has a token in both twins; context_tokens may be too small")
            # Each direction has queries, their positives and perhaps additional negatives.
            extra = [negatives] if len(negatives) else []
            directions = [a, b, *extra], [b, a, *extra]
            info_nce: Any = self._info_nce.compute_loss_from_embeddings
            loss: Tensor = sum(info_nce(embeddings, None) for embeddings in directions) / 2
            return loss

    def _pairs_and_negatives(self, vectors: Tensor, layout: _Layout) -> tuple[Tensor, Tensor, Tensor]:
        """The two sides a and b of the pairs, shape (N, D + 2), and the other negatives, shape (M, D + 2). The last two
        columns identify a window for `_similarity`: the number of its pair of texts, unique over all processes (-1 for
        negatives), and its index in the text."""
        side, row, present = layout
        at = [torch.nonzero(side == kind).flatten() for kind in (STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN)]
        paired = torch.isin(row[at[DISTRACTOR]], row[at[DISTRACTOR_TWIN]])
        a = torch.cat([at[STORY], at[DISTRACTOR][paired]])
        b = torch.cat([at[TWIN], at[DISTRACTOR_TWIN]])
        both = present[a] & present[b]
        numbers = torch.arange(len(a), device=a.device) * _processes() + get_rank()
        negatives = at[DISTRACTOR][~paired]
        no_numbers = torch.full((len(negatives),), -1, device=a.device)
        return (
            _tagged_windows(vectors[a], both, numbers),
            _tagged_windows(vectors[b], both, numbers),
            _tagged_windows(vectors[negatives], present[negatives], no_numbers),
        )

    def _similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """Cosine similarities of rows of `_pairs_and_negatives`. If `in_story_negatives` is off, those of different
        windows of a story and its twin are minus infinity, which takes them out of the softmax."""
        similarities = cos_sim(a[:, :-2], b[:, :-2])
        if self.in_story_negatives:
            return similarities
        same_story, same_window = (a[:, None, column] == b[None, :, column] for column in (-2, -1))
        return similarities.masked_fill(same_story & ~same_window, -torch.inf)


def _batches_by_length(lengths: Tensor, tokens: int) -> Iterator[tuple[Tensor, int]]:
    """Yield indices of texts, short ones first, in batches of about `tokens` padded tokens, with the longest length."""
    order = lengths.argsort()
    sizes = lengths[order].tolist()
    start = 0
    for stop in range(1, len(sizes) + 1):
        # End the batch before text `stop` if with this text, the longest so far, it would exceed the limit.
        if stop == len(sizes) or (stop + 1 - start) * sizes[stop] > tokens:
            yield order[start:stop], sizes[stop - 1]
            start = stop


def _count_windows(texts: dict[str, Tensor]) -> int:
    return int(texts["window_ids"].max()) + 1


def _tagged_windows(vectors: Tensor, kept: Tensor, numbers: Tensor) -> Tensor:
    """The kept windows of all texts as rows, each followed by the number of its text and its index in it."""
    text, window = torch.nonzero(kept, as_tuple=True)
    return torch.cat([vectors[kept], numbers[text, None].float(), window[:, None].float()], dim=1)


def _processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _gather(rows: Tensor) -> Tensor:
    """The rows of all processes; gradients flow back to the process of each row."""
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    sizes = [int(size) for size in counts]
    # Gathering needs the same shape in all processes: pad to the largest, and remove the padding afterwards.
    padded = torch.nn.functional.pad(rows, (0, 0, 0, max(sizes) - len(rows)))
    parts = torch.split(all_gather_with_grad(padded), max(sizes)) if max(sizes) else [rows] * len(sizes)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

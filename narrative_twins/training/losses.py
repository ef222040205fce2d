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
"""Padded tokens in a forward pass, on a CPU and elsewhere. A CPU is fastest when its caches hold the states, and
does not pay for a pass; elsewhere passes are dear."""
CITATION = """
@misc{sterner-narrative-twins,
    title={Contrastive Learning with Narrative Twins for Modeling Story Salience},
    author={Igor Sterner and Alex Lascarides and Frank Keller},
}
"""


class _Layout(NamedTuple):
    """What the texts of a batch are: side and row of each, shape (R,); which of their windows there are, (R, W)."""

    side: Tensor
    row: Tensor
    present: Tensor


class NarrativeTwinsLoss(CachedLossMixin, torch.nn.Module):
    """InfoNCE on cosine similarities, symmetric over the two sides of each pair of twins.

    For [a; b], the windows of the stories and of their twins, every other embedding of the batch is a negative, the
    partner the positive. Distractors of stories of one window that have a twin join the pairs, a = [stories;
    distractors] and b = [twins; distractor twins]; the windows of other distractors are further negatives. A window
    without a token on one of the sides is left out on both.

    The arithmetic is that of `MultipleNegativesRankingLoss` with the directions query to document and query to query,
    once from each side.

    Args:
        model: the `SentenceTransformer` to train, a transformer and its pooling.
        temperature: what similarities are divided by.
        distractors: whether the distractors of a batch take part.
        in_story_negatives: whether other windows of the same story and its twin are negatives.
        gather_across_devices: whether the negatives are those of all processes. The gradient is then that of one
            process with the batches of all, whatever the numbers of windows.
        mini_batch_size: encode so many texts at a time and cache gradients of the embeddings (Gao et al., 2021,
            "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"): any batch fits the memory, for
            one more forward pass. None encodes all texts at once.

    Raises:
        ValueError: a setting is none, or the model pools in a way that has no window level.
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
            raise ValueError(f"temperature={temperature}: similarities are divided by it, it is above 0")
        if mini_batch_size is not None and mini_batch_size < 1:
            raise ValueError(f"mini_batch_size={mini_batch_size}: at least one text is encoded at a time")
        self.model = model
        self.pooling: Pooling = check_pooling(module_settings(model).pooling or "mean")
        self.temperature = temperature
        self.distractors = distractors
        self.in_story_negatives = in_story_negatives
        self.gather_across_devices = gather_across_devices
        # None, which the mixin has no word for, is for no caching at all.
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
        windows = _count(texts)
        present = (texts["window_ids"].unsqueeze(2) == torch.arange(windows, device=texts["side"].device)).any(dim=1)
        layout = _Layout(texts["side"], texts["row"], present)
        if self.uses_gradient_cache:
            # The mixin hands its labels through to `calculate_loss`.
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
        """Window vectors of some texts of a batch, shape (texts, W, D)."""
        part = {key: value[begin:end] for key, value in sentence_feature.items()}
        with random_state or nullcontext(), torch.set_grad_enabled(with_grad):
            state = RandContext(*part.values()) if copy_random_state else None
            return self._embed(part, _count(sentence_feature)), state

    def calculate_loss(self, reps: list[list[Tensor]], labels: Any = None, *, with_backward: bool = False) -> Tensor:
        """The loss from window vectors embedded bit by bit; `labels` says what they are."""
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
        """Whom to cite, for the model card."""
        return CITATION

    def _embed(self, texts: dict[str, Tensor], windows: int) -> Tensor:
        """Window vectors of texts, shape (texts, W, D)."""
        ids, mask, window_ids = (texts[name] for name in ("input_ids", "attention_mask", "window_ids"))
        vectors, places = [], []
        for part, longest in _batches(mask.sum(dim=1), PASS_TOKENS[ids.device.type == "cpu"]):
            features = {"input_ids": ids[part, :longest], "attention_mask": mask[part, :longest]}
            states = self.model(features)["token_embeddings"]
            vectors.append(pool_windows(states, window_ids[part, :longest], windows, self.pooling)[0])
            places.append(part)
        return torch.cat(vectors)[torch.cat(places).argsort()]

    def _loss(self, vectors: Tensor, layout: _Layout) -> Tensor:
        # Similarities and softmax in float32, whatever the model runs in.
        with torch.autocast(vectors.device.type, enabled=False):
            a, b, negatives = self._sides(vectors, layout)
            if self.gather_across_devices and _processes() > 1:
                a, b, negatives = _gather(a), _gather(b), _gather(negatives)
            if not len(a):
                raise ValueError(
                    "no window of the batch has a token in both twins; the stories' windows may all lie beyond the "
                    "encoder's context"
                )
            extra = [negatives] if len(negatives) else []
            sides = [a, b, *extra], [b, a, *extra]
            info_nce: Any = self._info_nce.compute_loss_from_embeddings
            loss: Tensor = sum(info_nce(side, None) for side in sides) / 2
            return loss

    def _sides(self, vectors: Tensor, layout: _Layout) -> tuple[Tensor, Tensor, Tensor]:
        """The two sides of the pairs, shape (N, D + 2), and the further negatives, shape (M, D + 2). The two last
        columns of each are a number of the story, which no two stories on any device share, and its window."""
        side, row, present = layout
        at = [torch.nonzero(side == one).flatten() for one in (STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN)]
        paired = torch.isin(row[at[DISTRACTOR]], row[at[DISTRACTOR_TWIN]])
        a = torch.cat([at[STORY], at[DISTRACTOR][paired]])
        b = torch.cat([at[TWIN], at[DISTRACTOR_TWIN]])
        both = present[a] & present[b]
        numbers = torch.arange(len(a), device=a.device) * _processes() + get_rank()
        negatives = at[DISTRACTOR][~paired]
        none = torch.full((len(negatives),), -1, device=a.device)
        return (
            _tagged(vectors[a], both, numbers),
            _tagged(vectors[b], both, numbers),
            _tagged(vectors[negatives], present[negatives], none),
        )

    def _similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """Cosine similarities of vectors with story and window in their last columns, minus infinity for in-story
        negatives if these are off."""
        similarities = cos_sim(a[:, :-2], b[:, :-2])
        if self.in_story_negatives:
            return similarities
        story, window = (a[:, None, column] == b[None, :, column] for column in (-2, -1))
        return similarities.masked_fill(story & ~window, -torch.inf)


def _batches(lengths: Tensor, tokens: int) -> Iterator[tuple[Tensor, int]]:
    """Texts by length, in batches of about so many padded tokens at most, each with its longest."""
    order = lengths.argsort()
    sizes = lengths[order].tolist()
    start = 0
    for stop in range(1, len(sizes) + 1):
        if stop == len(sizes) or (stop + 1 - start) * sizes[stop] > tokens:
            yield order[start:stop], sizes[stop - 1]
            start = stop


def _count(texts: dict[str, Tensor]) -> int:
    """How many windows the texts have at most."""
    return int(texts["window_ids"].max()) + 1


def _tagged(vectors: Tensor, kept: Tensor, numbers: Tensor) -> Tensor:
    """The windows to be kept of each story, in a row, with story and window in two further columns."""
    story, window = torch.nonzero(kept, as_tuple=True)
    return torch.cat([vectors[kept], numbers[story, None].float(), window[:, None].float()], dim=1)


def _processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _gather(rows: Tensor) -> Tensor:
    """The rows of all processes, however many each has, with gradients to their owners."""
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    sizes = [int(one) for one in counts]
    padded = torch.nn.functional.pad(rows, (0, 0, 0, max(sizes) - len(rows)))
    parts = torch.split(all_gather_with_grad(padded), max(sizes)) if max(sizes) else [rows] * len(sizes)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

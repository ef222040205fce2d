"""The twins loss: InfoNCE over windows of stories, their twins and their distractors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.util import cos_sim, get_rank
from torch import Tensor

from narrative_twins.data.sources import NARRATIVE_TWINS
from narrative_twins.training.collator import DISTRACTOR, DISTRACTOR_TWIN, STORY, TWIN
from narrative_twins.training.gathering import gather_rows, process_count
from narrative_twins.training.window_loss import WindowLoss, count_windows

DistractorLoss: TypeAlias = Literal["joint", "separate"]

DISTRACTOR_LOSSES: tuple[DistractorLoss, ...] = ("joint", "separate")


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
        in_batch_negatives: whether texts of other rows are negatives: stories, twins and
            distractors. Without them, a window is compared only with its own story, as far as
            `in_story_negatives` allows, and its own distractor.
        distractor_loss: `"joint"`: as above. `"separate"`: pairs of distractor and distractor twin
            have a loss of their own, and are not negatives of stories; the result is the mean of
            the losses of stories and of distractors. Distractors without a twin are not used then.
            Only for stories with one window.
        gather_across_devices: whether processes share negatives; the gradient is that of one
            process with all batches.
        mini_batch_size: encode this many texts at a time and cache gradients of the embeddings (Gao
            et al., 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
            Setup"), so that any batch fits into memory, for one more forward pass. None for no
            caching.

    Raises:
        ValueError: a setting is invalid, no kind of negatives is left, or the model pools neither
            by the mean nor by the first token.
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
        if distractor_loss not in DISTRACTOR_LOSSES:
            raise ValueError(
                f"distractor_loss={distractor_loss!r} is unknown; use 'joint' or 'separate'"
            )
        if distractor_loss == "separate" and not distractors:
            raise ValueError(
                "distractor_loss='separate' is a loss of distractors, but distractors=False"
            )
        if (
            not (distractors and distractor_loss == "joint")
            and not in_story_negatives
            and not in_batch_negatives
        ):
            raise ValueError(
                "no negatives are left; set distractors, in_story_negatives or in_batch_negatives"
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
        texts = _texts_of(list(sentence_features))
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
        layout = _Layout(texts["side"], texts["row"], present)
        return self.loss_of_texts(texts, layout)

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        negatives = "distractors", "in_story_negatives", "in_batch_negatives", "distractor_loss"
        names = "temperature", *negatives, "gather_across_devices", "mini_batch_size"
        return {name: getattr(self, name) for name in names} | {"pooling": self.pooling}

    @property
    def citation(self) -> str:
        """The paper to cite."""
        return NARRATIVE_TWINS

    def loss_of_vectors(self, vectors: Tensor, layout: Any) -> Tensor:
        # Similarities and softmax are computed in float32, also under mixed precision.
        with torch.autocast(vectors.device.type, enabled=False):
            groups = self._groups(vectors, layout)
            if self.gather_across_devices and process_count() > 1:
                groups = [_Group(*map(gather_rows, group)) for group in groups]
            if not len(groups[0].a):
                raise ValueError(
                    "no window of the batch has a token in both twins; context_tokens may be too"
                    " small"
                )
            if not self.in_batch_negatives and not any(
                self._has_negatives(group) for group in groups
            ):
                raise ValueError(
                    "no window of the batch has a negative: in_batch_negatives is off, and"
                    " settings, rows and context_tokens leave neither distractors nor other windows"
                )
            losses = [self._group_loss(group) for group in groups if len(group.a)]
            return torch.stack(losses).mean()

    def _group_loss(self, group: _Group) -> Tensor:
        # Each direction has queries, their positives and perhaps additional negatives.
        extra = [group.negatives] if len(group.negatives) else []
        directions = [group.a, group.b, *extra], [group.b, group.a, *extra]
        info_nce: Any = self._info_nce.compute_loss_from_embeddings
        loss: Tensor = sum(info_nce(embeddings, None) for embeddings in directions) / 2
        return loss

    def _groups(self, vectors: Tensor, layout: _Layout) -> list[_Group]:
        """The group of the stories of a batch and, with `distractor_loss="separate"`, that of the
        distractors."""
        side, row, present = layout
        at = [
            torch.nonzero(side == kind).flatten()
            for kind in (STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN)
        ]
        paired = torch.isin(row[at[DISTRACTOR]], row[at[DISTRACTOR_TWIN]])
        stories, twins = at[STORY], at[TWIN]
        distractors, distractor_twins, lone = (
            at[DISTRACTOR][paired],
            at[DISTRACTOR_TWIN],
            at[DISTRACTOR][~paired],
        )
        if self.distractor_loss == "separate":
            parts = [(stories, twins, lone[:0]), (distractors, distractor_twins, lone[:0])]
        else:
            parts = [
                (torch.cat([stories, distractors]), torch.cat([twins, distractor_twins]), lone)
            ]
        groups = []
        for a, b, negatives in parts:
            both = present[a] & present[b]
            pairs = torch.arange(len(a), device=a.device) * process_count() + get_rank()
            no_pairs = torch.full((len(negatives),), -1, device=a.device)
            sides = (a, both, pairs), (b, both, pairs), (negatives, present[negatives], no_pairs)
            rows = row * process_count() + get_rank()
            groups.append(
                _Group(
                    *(_tagged_windows(vectors[i], kept, rows[i], pair) for i, kept, pair in sides)
                )
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
        return (
            len(group.a) > 0
            and int(self._is_compared(group.a, torch.cat(group)).sum(dim=1).max()) > 2
        )


def _texts_of(features: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The only feature of a batch from `TwinsCollator`. Raises ValueError if the batch is from
    another collator."""
    if len(features) == 1 and {"side", "row", "window_ids"} <= features[0].keys():
        return features[0]
    raise ValueError(
        f"NarrativeTwinsLoss needs batches of TwinsCollator, and this one has {len(features)}"
        " column(s) of plain text; train with NarrativeTwinsTrainer on rows with 'story' and"
        " perhaps 'twin', 'negative' and 'negative_twin', or give data_collator=TwinsCollator(...)"
        " to the trainer of sentence-transformers"
    )


def _tagged_windows(vectors: Tensor, kept: Tensor, rows: Tensor, pairs: Tensor) -> Tensor:
    """The kept windows of all texts as rows, each followed by the numbers of its row, of its pair
    and of the window."""
    text, window = torch.nonzero(kept, as_tuple=True)
    tags = torch.stack([rows[text], pairs[text], window], dim=1)
    return torch.cat([vectors[kept], tags.float()], dim=1)

"""Losses on the vectors of windows: their base class `WindowLoss`, and `NarrativeTwinsLoss`,
InfoNCE over windows of stories, their twins and their distractors, with its collator."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from random import Random
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
import torch.distributed as dist
from sentence_transformers.base.losses.gradcache import CachedLossMixin, RandContext
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.util import all_gather_with_grad, cos_sim, get_rank, get_world_size
from torch import Tensor

from narrative_twins.data.rows import check_twins_row, is_nested
from narrative_twins.encoder.loading import Pooling, module_settings, supported_pooling
from narrative_twins.encoder.passes import pool_windows
from narrative_twins.encoder.tokenizer import Ids, StoryTokenizer, padded

logger = logging.getLogger(__name__)

Twins: TypeAlias = Literal["narrative", "dropout"]
DistractorLoss: TypeAlias = Literal["joint", "separate"]
SETTINGS = (
    *("temperature", "twins", "distractors", "in_story_negatives", "in_batch_negatives"),
    *("distractor_loss", "gather_across_devices", "mini_batch_size"),
)
"""The settings of `NarrativeTwinsLoss`, which are also arguments of the trainer."""

STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN = range(4)
"""The side of a text: which text of its row it is."""

WindowedText: TypeAlias = tuple[list[str], list[int]]
"""The sentences of a text, and for each the index of the window that pools it; -1 for none."""

CPU_PASS_TOKENS = 2_560
"""Maximum padded tokens per forward pass on a CPU, which is fastest if the token states fit its
caches; more passes cost nothing there."""
PASS_TOKENS = 1_000_000
"""Maximum padded tokens per pass on other devices, where each pass has a high overhead."""


class TwinsCollator:
    """Collates rows of narrative twins into a batch for `NarrativeTwinsLoss`.

    A row without a twin gets a dropout twin; with `twins="dropout"`, every row does. Its texts are
    then the same text twice, encoded under two dropout masks: the story or, if the row has a twin,
    the twin with probability one half. A sentence that may belong to several windows is assigned to
    one of them at random. All random choices depend on the seed, the epoch and the story alone.

    In stories with one window, all tokens are pooled, special tokens included; in others, each
    window pools its own tokens. A text that exceeds the context is cut at its end; windows that
    lose all their tokens are left out of the loss.

    Args:
        tokens: the tokenizer of the encoder, `StoryEncoder.tokenizer`.
        twins: `"narrative"` or `"dropout"`.
        distractors: whether distractors are encoded.
        seed: the seed of the random choices.
    """

    def __init__(
        self,
        tokens: StoryTokenizer,
        twins: Twins = "narrative",
        distractors: bool = True,
        seed: int = 0,
    ) -> None:
        if twins not in ("narrative", "dropout"):
            raise ValueError(f"twins={twins!r} is unknown; use 'narrative' or 'dropout'")
        self.tokens = checked_tokens(tokens)
        self.twins = twins
        self.distractors = distractors
        self.seed = seed
        # Shared memory, because data loader workers may keep their copy of the collator across
        # epochs.
        self._epoch = torch.tensor(0).share_memory_()  # type: ignore[no-untyped-call]

    valid_label_columns: ClassVar[list[str]] = []
    """Required by the samplers of sentence-transformers."""

    @property
    def epoch(self) -> int:
        """The number of the epoch, which the trainer sets; random choices depend on it."""
        return int(self._epoch)

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate rows into a batch of R texts padded to T tokens: `texts_input_ids`,
        `texts_attention_mask` and `texts_window_ids` (the window that pools each token, or -1), of
        shape (R, T); `texts_side` (`STORY`, `TWIN`, `DISTRACTOR` or `DISTRACTOR_TWIN`) and
        `texts_row` (the index in `rows`), of shape (R,)."""
        encoded, sides, numbers = [], [], []
        for number, row in enumerate(rows):
            several_windows, texts = self._texts_of(row)
            for side, text in texts:
                encoded.append(self._encode(text, several_windows))
                sides.append(side)
                numbers.append(number)
        batch = padded_texts(encoded, self.tokens.pad_id)
        return batch | {"texts_side": torch.tensor(sides), "texts_row": torch.tensor(numbers)}

    def _texts_of(self, row: Mapping[str, Any]) -> tuple[bool, list[tuple[int, WindowedText]]]:
        """Return whether the story of a row has several windows; and the texts of the row to
        encode, each with its side, such as `TWIN`."""
        # The seed is a text, since a hash would differ between processes.
        random = Random(f"{self.seed} {self.epoch} {row['story']}")
        story, twin, negative, negative_twin = (
            _windowed_text(row, column, random)
            for column in ("story", "twin", "negative", "negative_twin")
        )
        assert story is not None
        several_windows = max(story[1]) > 0
        if self.twins == "dropout" or twin is None:
            # Dropout twin: the same text on both sides. If that is the twin, take its distractor as
            # well.
            if twin is not None and random.random() < 0.5:
                story = twin
                negative = negative_twin or negative
            twin = story
            negative_twin = negative
        texts = [(STORY, story), (TWIN, twin)]
        if self.distractors and negative is not None:
            texts.append((DISTRACTOR, negative))
            # Distractors with several windows are only used as negatives, which needs no twin.
            if negative_twin is not None and not several_windows:
                texts.append((DISTRACTOR_TWIN, negative_twin))
        return several_windows, texts

    def _encode(self, text: WindowedText, several_windows: bool) -> tuple[Ids, Ids]:
        """Return the token ids of a text, special tokens included, and the window that pools each
        token, or -1; both of shape (tokens,). A text that exceeds the context is cut."""
        tokens = self.tokens
        sentences, windows = text
        prompt, ids, sentence_of_token = tokens.tokenize_joined(tokens.texts(sentences))
        limit = tokens.max_text_tokens
        if len(ids) > limit:
            warn_once(
                f"texts are cut to the {limit} tokens that fit the context, and windows beyond are"
                " not trained on"
            )
        window_ids = np.asarray(windows, np.int32)[sentence_of_token[:limit]]
        # Special tokens are only pooled if the story has one window. `windows` does not show it:
        # the random choices may put all sentences of a twin into the first of several windows.
        return tokens.around(prompt, ids[:limit], window_ids, -1 if several_windows else 0, -1)


@cache
def warn_once(message: str) -> None:
    """Log a warning, but each message only once in a process."""
    logger.warning(message)


def padded_texts(texts: Sequence[tuple[Ids, Ids]], pad: int) -> dict[str, Any]:
    """Pad texts, each a pair of its token ids and the window of each token. Return tensors of shape
    (texts, longest): `texts_input_ids`, padded with the id `pad`; `texts_attention_mask`; and
    `texts_window_ids`, padded with -1."""
    ids, is_token = padded([ids for ids, _ in texts], pad)
    windows, _ = padded([windows for _, windows in texts], -1)
    arrays = {"input_ids": ids, "attention_mask": is_token.astype(np.int64), "window_ids": windows}
    return {f"texts_{name}": torch.from_numpy(array) for name, array in arrays.items()}


def flat_text(content: Sequence[Any]) -> WindowedText:
    """Return the sentences of a text and the window of each. The text is a list of sentences or of
    windows: `[["a", "b"], ["c"]]` → `["a", "b", "c"], [0, 0, 1]`."""
    windows = content if is_nested(content) else [content]
    pairs = [(sentence, number) for number, window in enumerate(windows) for sentence in window]
    return [sentence for sentence, _ in pairs], [number for _, number in pairs]


def _windowed_text(row: Mapping[str, Any], column: str, random: Random) -> WindowedText | None:
    """Return the sentences of a `column` of a row of twins, and the window of each sentence; None
    if the row lacks the column. If a sentence may be in several windows, `random` draws one."""
    content = row.get(column)
    if content is None:
        return None
    candidates = row.get(f"{column}_windows")
    if candidates is None or is_nested(content):
        return flat_text(content)
    drawn = [random.choice(windows) if len(windows) else -1 for windows in candidates]
    return list(content), drawn


def checked_tokens(tokens: StoryTokenizer) -> StoryTokenizer:
    """Return `tokens` unchanged. Raises TypeError if it is not a `StoryTokenizer`."""
    if not isinstance(tokens, StoryTokenizer):
        raise TypeError(
            f"tokens is {type(tokens).__name__}, but must be a StoryEncoder's:"
            " StoryEncoder.from_sentence_transformer(model).tokenizer"
        )
    return tokens


class WindowLoss(CachedLossMixin, torch.nn.Module):
    """Base class of losses on the vectors of windows. It encodes the texts of a batch.

    Args:
        model: the `SentenceTransformer` to train, a transformer and its pooling (ValueError if the
            pooling is not supported).
        mini_batch_size: encode this many texts at a time and cache gradients of the embeddings (Gao
            et al., 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
            Setup"): any batch fits into memory, for one more forward pass. None: all texts at once.
    """

    def __init__(self, model: Any, mini_batch_size: int | None = None) -> None:
        super().__init__()
        if mini_batch_size is not None and mini_batch_size < 1:
            raise ValueError(f"mini_batch_size={mini_batch_size} is not at least 1")
        self.model = model
        self.pooling: Pooling = supported_pooling(module_settings(model).pooling or "mean")
        # None turns caching off; the mixin itself allows only numbers.
        self.mini_batch_size = mini_batch_size  # type: ignore[assignment]
        self.uses_gradient_cache = mini_batch_size is not None

    @abstractmethod
    def collator(self, tokens: StoryTokenizer, seed: int = 0) -> Any:
        """Return the collator that makes batches of rows for this loss. `tokens` is the tokenizer
        of the encoder, `StoryEncoder.tokenizer`, and `seed` is for random choices."""

    @abstractmethod
    def check_row(self, row: Mapping[str, Any], where: str) -> None:
        """Raise an error with the location `where` if this loss can't be trained on a row."""

    @abstractmethod
    def loss_of_vectors(self, vectors: Tensor, layout: Any) -> Tensor:
        """Return the loss of a batch, a scalar, from its window vectors, shape (texts, W, D).
        `layout` tells which row each vector is of; `forward` of the subclass makes the layout."""

    def batch(self, features: Iterable[dict[str, Any]], column: str) -> dict[str, Any]:
        """Return the only batch in `features`. Raises ValueError if there are several batches, or
        the batch lacks `column`, since another collator made it."""
        texts, *others = features
        if others or column not in texts:
            raise ValueError(
                f"{type(self).__name__} needs batches of its collator; train with"
                " NarrativeTwinsTrainer, or give data_collator=loss.collator(tokens) to the trainer"
                " of sentence-transformers"
            )
        return texts

    def loss_of_texts(self, texts: dict[str, Tensor], layout: Any) -> Tensor:
        """Encode texts and return `loss_of_vectors` of their window vectors and `layout`, a scalar.
        `texts` has `input_ids`, `attention_mask` and `window_ids` (-1: not pooled), each of shape
        (texts, tokens)."""
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
        """Return the window vectors of the texts `[begin, end)` of a batch, shape (texts, W, D);
        and the random state before the encoding if `copy_random_state` is set, else None. The
        encoding starts from `random_state` if it is not None."""
        part = {key: value[begin:end] for key, value in sentence_feature.items()}
        with random_state or nullcontext(), torch.set_grad_enabled(with_grad):
            state = RandContext(*part.values()) if copy_random_state else None
            return self.embed(part, count_windows(sentence_feature)), state

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Any = None, *, with_backward: bool = False
    ) -> Tensor:
        """Return the loss of a batch, a scalar. `reps` has one list, the window vectors of each
        minibatch, shape (texts, W, D); `labels` is the layout for `loss_of_vectors`.
        `with_backward` computes gradients, and detaches the loss."""
        loss = self.loss_of_vectors(torch.cat(reps[0]), labels)
        if with_backward:
            torch.autograd.backward(loss)
            loss = loss.detach()
        return loss

    def embed(self, texts: dict[str, Tensor], windows: int) -> Tensor:
        """Return window vectors, shape (texts, windows, D), of texts as in `loss_of_texts`."""
        ids, mask, window_ids = (
            texts[name] for name in ("input_ids", "attention_mask", "window_ids")
        )
        vectors, indices = [], []
        limit = CPU_PASS_TOKENS if ids.device.type == "cpu" else PASS_TOKENS
        # Encode texts of similar length together, with little padding; then restore their order.
        for part, longest in batches_by_length(mask.sum(dim=1), limit):
            features = {"input_ids": ids[part, :longest], "attention_mask": mask[part, :longest]}
            output = self.model(features)
            # `MatryoshkaLoss` shortens the vectors of texts. Shorten the states as much, and with
            # them their means.
            states = output["token_embeddings"][..., : output["sentence_embedding"].shape[-1]]
            pooled = window_ids[part, :longest]
            vectors.append(pool_windows(states, pooled, windows, self.pooling)[0])
            indices.append(part)
        return torch.cat(vectors)[torch.cat(indices).argsort()]


def batches_by_length(lengths: Tensor, tokens: float) -> Iterator[tuple[Tensor, int]]:
    """Yield batches of texts with these `lengths`, of at most `tokens` tokens with padding (a
    longer text is alone): the indices of the texts, and the length of the longest."""
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
    """Return the largest number of windows of a text in a batch."""
    return int(texts["window_ids"].max()) + 1


class _Group(NamedTuple):
    """Window vectors that are compared with each other. `a` and `b`, shape (N, D + 3), are N pairs:
    the same window of a text and of its twin. `negatives`, shape (M, D + 3), are in no pair. Three
    columns follow the D dimensions, for `_is_compared`: the number of the row and of the pair of
    texts, each unique over all processes, and the index of the window in its text."""

    a: Tensor
    b: Tensor
    negatives: Tensor


class NarrativeTwinsLoss(WindowLoss):
    """Symmetric InfoNCE on cosine similarities of window embeddings.

    Let a be the windows of the stories of a batch and b their twins' windows. For each window, the
    positive is the same window of the twin (or story); all other windows in a and b are negatives.
    Distractors that have a twin, in stories with one window, are pairs as well: a = [stories;
    distractors], b = [twins; distractor twins]. Other distractors are negatives only. A pair of
    windows is left out if one of them has no token. The loss is the mean of two
    `MultipleNegativesRankingLoss` (query to document, query to query), with a and with b as
    queries.

    Its batches are from `TwinsCollator`. It is the default loss of `NarrativeTwinsTrainer`.

    Args:
        model: the `SentenceTransformer` to train, a transformer and its pooling.
        temperature: cosine similarities are divided by it.
        twins: `"narrative"`, or `"dropout"` for dropout twins of all rows, see `TwinsCollator`.
        distractors: whether distractors are used.
        in_story_negatives: whether other windows of the same story and its twin are negatives.
        in_batch_negatives: whether texts of other rows are negatives. If not, a window is compared
            only with texts of its own row.
        distractor_loss: `"joint"`: as above. `"separate"`: pairs of distractor and distractor twin
            have a loss of their own, and are not negatives of stories; the result is the mean of
            the losses of stories and of distractors. Distractors without a twin are then not used.
            Only for stories with one window.
        gather_across_devices: whether processes share their negatives, as in one large batch.
        mini_batch_size: see `WindowLoss`.

    Raises:
        ValueError: a setting or the pooling of the model is invalid.

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
        twins: Twins = "narrative",
        distractors: bool = True,
        in_story_negatives: bool = True,
        in_batch_negatives: bool = True,
        distractor_loss: DistractorLoss = "joint",
        gather_across_devices: bool = True,
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
        self.twins = twins
        self.distractors = distractors
        self.in_story_negatives = in_story_negatives
        self.in_batch_negatives = in_batch_negatives
        self.distractor_loss = distractor_loss
        self.gather_across_devices = gather_across_devices
        self._has_dropout = has_dropout(next(iter(model)).auto_model.config)
        self._info_nce = MultipleNegativesRankingLoss(
            None,  # type: ignore[arg-type]
            scale=1 / temperature,
            similarity_fct=self._similarity,
            directions=("query_to_doc", "query_to_query"),
        )

    def collator(self, tokens: StoryTokenizer, seed: int = 0) -> TwinsCollator:
        """Return a `TwinsCollator` with the settings of this loss."""
        return TwinsCollator(tokens, self.twins, self.distractors, seed)

    def check_row(self, row: Mapping[str, Any], where: str) -> None:
        """Raise a RowError if a row is invalid, and a ValueError if the row needs a dropout twin
        and the model has no dropout."""
        check_twins_row(row, where)
        if not self._has_dropout and (self.twins == "dropout" or row.get("twin") is None):
            raise ValueError(
                f"{where} gets a dropout twin, which needs an encoder with dropout, or both would"
                " have the same vector; load it with trainable_encoder(...)"
            )

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch from `TwinsCollator`, a scalar. Raises ValueError for other
        batches, and if the settings leave a batch without pairs or without negatives."""
        texts = self.batch(sentence_features, "side")
        if not self.distractors:
            kept = texts["side"] < DISTRACTOR
            texts = {key: value[kept] for key, value in texts.items()}
        windows = count_windows(texts)
        if self.distractor_loss == "separate" and windows > 1:
            raise ValueError(
                "distractor_loss='separate' needs stories with one window, since others have no"
                " distractor twins"
            )
        # present[r, w]: whether text r has a token in window w.
        present = (
            texts["window_ids"].unsqueeze(2) == torch.arange(windows, device=texts["side"].device)
        ).any(dim=1)
        return self.loss_of_texts(texts, (texts["side"], texts["row"], present))

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings, for the model card."""
        return {name: getattr(self, name) for name in (*SETTINGS, "pooling")}

    def loss_of_vectors(self, vectors: Tensor, layout: Any) -> Tensor:
        """Return the loss of a batch, a scalar. Raises ValueError without pairs or negatives."""
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
            info_nce: Any = self._info_nce.compute_loss_from_embeddings
            losses = []
            for a, b, negatives in groups:
                # Each direction has queries, their positives and perhaps more negatives.
                more = [negatives] if len(negatives) else []
                for queries, positives in ((a, b), (b, a)) if len(a) else ():
                    losses.append(info_nce([queries, positives, *more], None))
            return torch.stack(losses).mean()

    def _groups(self, vectors: Tensor, layout: tuple[Tensor, Tensor, Tensor]) -> list[_Group]:
        """Group the window vectors of a batch of R texts, shape (R, W, D): in one group or, with
        `distractor_loss="separate"`, a group of stories and a group of distractors. `layout` has
        the side of each text (such as `TWIN`) and the index of its row, shape (R,), and whether
        each of its windows has a token, shape (R, W)."""
        side, row, present = layout
        stories, twins, distractors, distractor_twins = (
            torch.nonzero(side == kind).flatten()
            for kind in (STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN)
        )
        paired = torch.isin(row[distractors], row[distractor_twins])
        lone, distractors = distractors[~paired], distractors[paired]
        if self.distractor_loss == "separate":
            pairs = [(stories, twins, lone[:0]), (distractors, distractor_twins, lone[:0])]
        else:
            a, b = torch.cat([stories, distractors]), torch.cat([twins, distractor_twins])
            pairs = [(a, b, lone)]
        rows = row * get_world_size() + get_rank()

        def windows(texts: Tensor, kept: Tensor, pair: Tensor) -> Tensor:
            """Return the vectors of the windows that `kept`, shape (texts, W), selects in `texts`
            (indices), each followed by the numbers of its row, of its pair of texts and of the
            window."""
            text, window = torch.nonzero(kept, as_tuple=True)
            tags = torch.stack([rows[texts][text], pair[text], window], dim=1)
            return torch.cat([vectors[texts][kept], tags.float()], dim=1)

        groups = []
        for a, b, negatives in pairs:
            both = present[a] & present[b]
            numbers = torch.arange(len(a), device=a.device) * get_world_size() + get_rank()
            others = windows(negatives, present[negatives], torch.full_like(negatives, -1))
            groups.append(_Group(windows(a, both, numbers), windows(b, both, numbers), others))
        return groups

    def _similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the cosine similarities of window vectors in a `_Group`, shape (len(a), len(b)).
        Windows that are not compared have minus infinity, which takes them out of the softmax."""
        similarities = cos_sim(a[:, :-3], b[:, :-3])
        if self.in_story_negatives and self.in_batch_negatives:
            return similarities
        return similarities.masked_fill(~self._is_compared(a, b), -torch.inf)

    def _is_compared(self, a: Tensor, b: Tensor) -> Tensor:
        """Return whether window i in `a` is compared with window j in `b`, shape (len(a),
        len(b))."""
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
        """Return whether any window in `group.a` is compared with more than its positive."""
        compared = self._is_compared(group.a, torch.cat(group)).sum(dim=1)
        return bool((compared > 2).any())


def has_dropout(config: Any) -> bool:
    """Return whether the configuration of a model sets dropout, other than in a classifier head."""
    return any(
        isinstance(value, float) and value > 0
        for key, value in config.to_dict().items()
        if "dropout" in key and "classifier" not in key
    )


def gather_rows(rows: Tensor) -> Tensor:
    """Return the rows of all processes in one tensor. Processes may have different numbers of rows.
    Gradients flow back to the process of each row."""
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(get_world_size())]
    dist.all_gather(counts, count)
    sizes = [int(size) for size in counts]
    if not max(sizes):
        return rows
    # Gathering needs the same shape in all processes: pad to the largest, and remove the padding
    # afterwards.
    padded = torch.nn.functional.pad(rows, (0, 0, 0, max(sizes) - len(rows)))
    parts = torch.split(all_gather_with_grad(padded), max(sizes))
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

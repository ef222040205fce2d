"""Plans: the texts to embed for a window, and its scores from their embeddings. Exact plans embed
one text per order of sentences; one-pass plans use the token states of one pass over the story."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.tokenizer import Chunk, TokenizedStory, Window
from narrative_twins.salience.operations import Operation, Similarity, cosine, with_similarity
from narrative_twins.stories.sentences import Span
from narrative_twins.stories.story import Order, StoryError

WINDOW_TOKENS = 100_000_000
"""Maximal tokens of the variants of a window; the plan of a larger window would take more than half
a gigabyte."""

_STEP = 0.875
"""The distance from text to text in one pass over a long story, as a share of the context: 1.14
tokens are read per token of the story, and a sixteenth of the context on both sides of a sentence.
"""


@dataclass
class Plan:
    """The variants (texts to embed) of one window, and which of them each operation uses.

    Attributes:
        window: the window to score.
        operations: each operation with the indices of its variants in `variants`.
        variants: the chunks of each variant.
        cut_tokens: the number of the story's tokens that don't fit the context with the window.
        one_pass: whether the plan is for one pass. Its variants are the same text, or the same few
            texts, with other tokens pooled: a variant for each sentence of the window, and perhaps
            one for special tokens.
    """

    window: Window
    cut_tokens: int
    operations: list[tuple[Operation, list[int]]] = field(default_factory=list)
    variants: list[list[Chunk]] = field(default_factory=list)
    one_pass: bool = False

    @property
    def tokens(self) -> int:
        """The number of tokens of all variants; in one pass, equal texts are counted once."""
        chunks = (chunk for variant in self.variants for chunk in variant)
        if self.one_pass:
            return sum({chunk.ids.tobytes(): len(chunk.ids) for chunk in chunks}.values())
        return sum(len(chunk.ids) for chunk in chunks)

    def scores(self, vectors: NDArray[np.float32]) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Yield the name of each operation and its scores of the window's sentences, shape
        (window.size,), from one vector per variant. Raises StoryError if vectors are not finite,
        and ValueError if an operation does not return one finite score per sentence."""
        if self.one_pass:
            check_finite(vectors)
            sums = pooled_sums(self.variants, vectors)
        for operation, indices in self.operations:
            if self.one_pass:
                scores = one_pass_scores(operation, sums, self.window.size)
            else:
                check_finite(vectors[indices])
                scores = operation.scores(self.window, vectors[indices])
                scores = checked_scores(operation, scores, self.window.size)
            yield operation.name, scores


def pooled_sums(
    variants: Sequence[Sequence[Chunk]], vectors: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return the sums of the pooled token states of variants, from their means (`vectors`, shape
    (variants, dimensions)). The result has one more column, the number of pooled tokens: its shape
    is (variants, dimensions + 1)."""
    sizes = [sum(int(np.count_nonzero(chunk.pooled)) for chunk in chunks) for chunks in variants]
    sums = (vectors * np.array(sizes, np.float32)[:, None]).astype(np.float64)
    return np.column_stack([sums, sizes])


def one_pass_scores(
    operation: Operation, sums: NDArray[np.float64], count: int
) -> NDArray[np.float64]:
    """Return an operation's one-pass scores of `count` sentences, shape (count,). `sums`, from
    `pooled_sums`, has a row for each sentence, and then rows for other pooled tokens, if any, such
    as special tokens. Raises ValueError as `checked_scores`."""
    similarity = vars(operation).get("similarity", cosine)  # the option's
    if similarity is cosine:  # sums have the same cosines as means
        sums = np.ascontiguousarray(sums[:, :-1])
    else:
        operation = with_similarity(operation, partial(_similarity_of_means, similarity))
    scores = operation.one_pass(sums[:count], sums[count:].sum(axis=0))
    return checked_scores(operation, scores, count)


def _similarity_of_means(similarity: Similarity, *sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the similarity of means of token states, from two arrays as `pooled_sums` returns
    them."""
    return similarity(*(each[..., :-1] / np.maximum(each[..., -1:], 1) for each in sums))


def check_finite(vectors: NDArray[np.floating[Any]]) -> None:
    """Raise a StoryError if vectors have infinite or NaN values."""
    if not np.isfinite(vectors).all():
        raise StoryError("the encoder's states are not finite; load it with dtype='float32'")


def checked_scores(operation: Operation, returned: Any, count: int) -> NDArray[np.float64]:
    """Return the scores that an operation returned, as float64. Raises ValueError unless there is
    one finite score for each of `count` sentences."""
    scores = np.asarray(returned, np.float64)
    if scores.shape != (count,) or not np.isfinite(scores).all():
        raise ValueError(
            f"operation {operation.name!r} must return one finite score for each of {count}"
            f" sentence(s), not {scores!r}"
        )
    return scores


def planner(
    operations: Sequence[Operation], one_pass: bool
) -> Callable[[TokenizedStory, Sequence[Span]], Iterator[Plan]]:
    """Return the function that yields the plans of the windows of a story, from its tokens and
    windows: one-pass plans if `one_pass`, else exact plans."""
    return partial(one_pass_plans if one_pass else exact_plans, operations)


def exact_plans(
    operations: Sequence[Operation], tokens: TokenizedStory, spans: Sequence[Span]
) -> Iterator[Plan]:
    """Yield the exact plan of each window of a story; `spans` are the windows. Raises StoryError if
    a window needs more than `WINDOW_TOKENS` or an order has no token to pool, and ValueError if an
    order of an operation is invalid."""
    for span in spans:
        # In a story of one window all tokens are pooled, as in sentence-transformers.
        pooled = None if len(spans) == 1 else span
        window = tokens.window(span)
        plan = Plan(window, tokens.cut_tokens(window))
        index_of: dict[Order, int] = {}
        planned = 0
        for operation in operations:
            indices: list[int] = []
            for order in operation.orders(window):
                # Each distinct order becomes one variant, which operations share. (Lists are not
                # hashable: check first.)
                if not isinstance(order, tuple) or order not in index_of:
                    _check_order(operation, order, window)
                    index_of[order] = len(plan.variants)
                    chunks = tokens.chunks(order, pooled)
                    plan.variants.append(chunks)
                    planned += sum(len(chunk.ids) for chunk in chunks)
                indices.append(index_of[order])
                # Check here, not at the end: the orders of a large window alone fill the memory.
                if planned > WINDOW_TOKENS:
                    raise StoryError(
                        f"the window of sentences {window.lo} to {window.hi - 1} needs more than"
                        f" {WINDOW_TOKENS:,} tokens for {operation.name}; use smaller windows, or"
                        f" leave {operation.name} out"
                    )
            plan.operations.append((operation, indices))
        yield plan


def one_pass_plans(
    operations: Sequence[Operation], tokens: TokenizedStory, spans: Sequence[Span]
) -> Iterator[Plan]:
    """Yield the one-pass plan of each window of a story; `spans` are the windows. A story that
    exceeds the context is read in several texts, each of which overlaps the next by at least an
    eighth of the context (`_STEP`). Sentences of one window may be read in different texts."""
    ranges = tokens.one_pass_spans(_STEP)
    read: list[tuple[Window, list[Chunk]]] = []  # each sentence from `lo` on, with its text
    special = len(spans) == 1
    for lo, hi in spans:
        rest: list[Chunk] = []
        while lo + len(read) < hi:
            text = tokens.window(next(ranges))
            by_sentence, others = tokens.sentence_chunks(text, special)
            read += [(text, chunks) for chunks in by_sentence]
            rest += [chunk for chunks in others for chunk in chunks]
        inside = read[: hi - lo]
        del read[: hi - lo]
        texts = [text for text, _ in inside]
        variants = [chunks for _, chunks in inside] + ([rest] if rest else [])
        indices = list(range(len(variants)))
        yield Plan(
            Window(texts[0].start, lo, hi, texts[-1].stop),
            max(map(tokens.cut_tokens, texts)),
            [(operation, indices) for operation in operations],
            variants,
            one_pass=True,
        )


def _check_order(operation: Operation, order: Order, window: Window) -> None:
    """Raise a ValueError unless an order is a tuple of indices of sentences in `window.base`."""
    if (
        not isinstance(order, tuple)
        or not order
        or min(order) < window.start
        or max(order) >= window.stop
    ):
        raise ValueError(
            f"operation {operation.name!r} has the order {order!r:.80}; an order is a tuple of"
            f" sentence indices from {window.start} to {window.stop - 1}"
        )

"""What to embed to score a window, and how scores come of it: exactly, one text for each thing the operations compare;
or approximately, from the token states of one forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.tokens import Chunk, TokenizedStory
from narrative_twins.salience.operations import Operation
from narrative_twins.stories.story import StoryError
from narrative_twins.stories.windows import Order, Span, Window

Approximation: TypeAlias = Literal["one-pass"]

WINDOW_TOKENS = 100_000_000
"""Tokens of variants one window may ask for; beyond that the plan alone takes more than half a gigabyte."""


@dataclass
class Plan:
    """The variants that one window asks for, and for each operation which of them it goes by.

    Attributes:
        window: what is scored.
        operations: each with the places of its vectors among the variants.
        variants: the chunks of each.
        one_pass: whether the variants are the sentences of the window as they stand in one text, and after them what
            that text has besides sentences.
    """

    window: Window
    operations: list[tuple[Operation, list[int]]] = field(default_factory=list)
    variants: list[list[Chunk]] = field(default_factory=list)
    one_pass: bool = False

    @property
    def tokens(self) -> int:
        """How many tokens the variants have together; a text of which several are pooled counts once."""
        # In one pass all variants are parts of the same text, held once.
        held = self.variants[:1] if self.one_pass else self.variants
        return sum(len(chunk.ids) for chunks in held for chunk in chunks)

    def scores(self, vectors: NDArray[np.float32]) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Scores of the window's sentences by operation, from one vector a variant.

        Raises:
            StoryError: the vectors of an operation are not finite.
            ValueError: an operation gives something else than a finite score a sentence.
        """
        if self.one_pass:
            sizes = [sum(int(chunk.pooled.sum()) for chunk in chunks) for chunks in self.variants]
            vectors = vectors * np.array(sizes, np.float32)[:, None]
        for operation, rows in self.operations:
            if not np.isfinite(vectors[rows]).all():
                raise StoryError("the encoder's states are not finite; load it with dtype='float32'")
            if self.one_pass:
                sums = vectors[: self.window.size].astype(np.float64)
                found = operation.one_pass(sums, vectors[self.window.size :].astype(np.float64).sum(axis=0))
            else:
                found = operation.scores(self.window, vectors[rows])
            scores = np.asarray(found, np.float64)
            if scores.shape != (self.window.size,) or not np.isfinite(scores).all():
                raise ValueError(
                    f"operation {operation.name!r} gave {scores!r} for a window of {self.window.size} sentence(s); "
                    "one finite score a sentence is needed"
                )
            yield operation.name, scores


def exact_plan(operations: Sequence[Operation], tokens: TokenizedStory, window: Window, pooled: Span | None) -> Plan:
    """The plan of a window: what the operations ask for, each order once.

    Args:
        operations: what is measured.
        tokens: the story.
        window: what is scored, and what is read with it.
        pooled: the sentences whose tokens are pooled, None for all tokens.

    Raises:
        StoryError: it asks for more than `WINDOW_TOKENS`; or nothing is there to pool.
        ValueError: an operation asks for sentences there are not.
    """
    plan, places, planned = Plan(window), dict[Order, int](), 0
    for operation in operations:
        rows: list[int] = []
        for order in operation.orders(window):
            if not isinstance(order, tuple) or order not in places:
                _check_order(operation, order, window)
                places[order] = len(plan.variants)
                chunks = tokens.chunks(order, pooled)
                plan.variants.append(chunks)
                planned += sum(len(chunk.ids) for chunk in chunks)
            rows.append(places[order])
            if planned > WINDOW_TOKENS:
                raise StoryError(
                    f"the window of sentences {window.lo} to {window.hi - 1} asks {operation.name} for more than "
                    f"{WINDOW_TOKENS:,} tokens; cut the story into smaller windows, or leave {operation.name} out"
                )
        plan.operations.append((operation, rows))
    return plan


def exact_plans(operations: Sequence[Operation], tokens: TokenizedStory, spans: Sequence[Span]) -> Iterator[Plan]:
    """The plans of a story's windows, one by one."""
    for span in spans:
        # A story of one window is pooled over all its tokens, as a sentence-transformer would.
        yield exact_plan(operations, tokens, tokens.window(span), None if len(spans) == 1 else span)


def workload(operations: Sequence[Operation], tokens: TokenizedStory, spans: Sequence[Span], enough: int) -> int:
    """How many tokens the encoder will read for exact scores, told before anything is planned: nearly, since special
    tokens are left out; up to three times too many where windows are longer than the context, whose texts share parts.

    Args:
        operations: what is to be measured.
        tokens: the story.
        spans: its windows.
        enough: where counting ends: to count what can't be done would take too long as well.
    """
    asked = 0
    for span in spans:
        window, seen = tokens.window(span), set[Order]()
        for operation in operations:
            for order in operation.orders(window):
                if order not in seen:
                    seen.add(order)
                    asked += tokens.length(order)
                if asked > enough:
                    return asked
    return asked


def one_pass_plans(operations: Sequence[Operation], tokens: TokenizedStory, spans: Sequence[Span]) -> Iterator[Plan]:
    """The plans of a story's windows where all operations go by the token states of one text: the story, or as much of
    it as fits. Windows that fill half of the context or less between them share a text."""
    for group in _groups(tokens, spans):
        whole = tokens.window((group[0][0], group[-1][1]))
        texts, rest = tokens.parts(whole, special=len(spans) == 1)
        for lo, hi in group:
            variants = [*texts[lo - whole.lo : hi - whole.lo], *rest]
            places = list(range(len(variants)))
            plan = Plan(Window(whole.start, lo, hi, whole.stop), variants=variants, one_pass=True)
            plan.operations = [(operation, places) for operation in operations]
            yield plan


def contexts(tokens: TokenizedStory, spans: Sequence[Span], approximate: Approximation | None) -> list[Window]:
    """Each window, or each group of windows that share a text, with what is read together with it."""
    if approximate is None:
        return [tokens.window(span) for span in spans]
    return [tokens.window((group[0][0], group[-1][1])) for group in _groups(tokens, spans)]


def _groups(tokens: TokenizedStory, spans: Sequence[Span]) -> Iterator[list[Span]]:
    group: list[Span] = []
    for span in spans:
        if group and tokens.size((group[0][0], span[1])) > tokens.room // 2:
            yield group
            group = []
        group.append(span)
    yield group


def _check_order(operation: Operation, order: Order, window: Window) -> None:
    if not isinstance(order, tuple) or not order or min(order) < window.start or max(order) >= window.stop:
        raise ValueError(
            f"operation {operation.name!r} asked for the order {order!r:.80}; an order is a tuple of sentence indices "
            f"from {window.start} to {window.stop - 1}"
        )

"""The four operations of narrative salience as index arithmetic: which orders of sentences to embed, and how their
embeddings become scores. No tokenizer and no model.

Source: Sterner, Lascarides and Keller, "Contrastive Learning with Narrative Twins for Modeling Story Salience".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from narrative_twins.stories.windows import Order, Window


class Operation(ABC):
    """One way to measure salience. Subclass it, then `register_operation` it, and every door of the package knows it.

    The engine asks `orders` what to embed, embeds each order once however many operations ask for it, pools the
    tokens of the window's sentences (each sentence keeps its window whatever the order), and hands `scores` one
    vector an order. Higher is more salient. Where there is nothing to compare, a score is 0.0 by definition.
    """

    name: ClassVar[str]
    """What users call it, in `operations=` and as the key of the scores."""
    meaning: ClassVar[str]
    """One line for readers of a result."""

    @abstractmethod
    def orders(self, window: Window) -> Iterable[Order]:
        """The orders of sentences to embed; each must hold a sentence of the window. Where they may be many, yield
        them: the engine stops listening when a window asks for too much."""

    @abstractmethod
    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores of the window's sentences, shape `(window.size,)`, from one vector an order, shape
        `(len(orders), dimensions)`."""

    def one_pass(self, sums: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """About the same scores from the token states of one forward pass over the story, if the operation has such a
        form.

        Args:
            sums: the sum of the states of each sentence of the window, shape `(window.size, dimensions)`.
            rest: that of the other tokens that are pooled with the window, shape `(dimensions,)`.
        """
        raise NotImplementedError(f"operation {self.name!r} has no form for one forward pass")

    @property
    def has_one_pass(self) -> bool:
        """Whether there is a `one_pass`."""
        return type(self).one_pass is not Operation.one_pass


OPERATIONS: dict[str, Operation] = {}
"""The registry: operations by name, in the order they are shown."""

Registered = TypeVar("Registered", bound=type[Operation])


def register_operation(operation: Registered) -> Registered:
    """Class decorator that adds an operation under its `name`.

    Raises:
        ValueError: another operation has that name; one that is only defined anew, as in a notebook, is replaced.
    """
    known = OPERATIONS.get(operation.name)
    if known is not None and type(known).__qualname__ != operation.__qualname__:
        raise ValueError(f"there is an operation {operation.name!r} already, {type(known).__qualname__}; choose a name")
    OPERATIONS[operation.name] = operation()
    return operation


def resolve_operations(
    operations: str | Operation | Iterable[str | Operation] | None = None,
    *,
    one_pass: bool = False,
    max_shifts: int | None = None,
) -> list[Operation]:
    """Operations by name; None stands for all of the registry.

    Args:
        operations: names, or operations themselves.
        one_pass: only such as have a form for one forward pass.
        max_shifts: for `Shifting`, where it is among them.

    Raises:
        ValueError: a name is unknown, there is none, or an operation lacks the form that is asked for.
    """
    if operations is None:
        operations = [operation for operation in OPERATIONS.values() if operation.has_one_pass or not one_pass]
    if isinstance(operations, (str, Operation)):
        operations = [operations]
    chosen = {}
    for operation in operations:
        if isinstance(operation, str):
            operation = _named(operation)
        if not isinstance(operation, Operation):
            raise TypeError(f"an operation is a name or an instance of Operation, not {operation!r:.60}")
        if one_pass and not operation.has_one_pass:
            there = ", ".join(name for name, one in OPERATIONS.items() if one.has_one_pass)
            raise ValueError(f"{operation.name} can't be had from one forward pass; choose of {there}, or be exact")
        if max_shifts is not None and type(operation) is Shifting:
            operation = Shifting(max_shifts)
        chosen[operation.name] = operation
    if not chosen:
        raise ValueError(f"no operation asked for; there are {', '.join(OPERATIONS)}")
    return list(chosen.values())


def _named(name: str) -> Operation:
    if name in OPERATIONS:
        return OPERATIONS[name]
    close = get_close_matches(name, OPERATIONS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"unknown operation {name!r}; there are {', '.join(OPERATIONS)}{hint}")


def cosine(a: NDArray[np.floating[Any]], b: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Cosine similarity along the last axis, in float64; leading axes broadcast."""
    a64, b64 = np.asarray(a, np.float64), np.asarray(b, np.float64)
    norms = np.linalg.norm(a64, axis=-1) * np.linalg.norm(b64, axis=-1)
    similarities: NDArray[np.float64] = np.sum(a64 * b64, axis=-1) / np.maximum(norms, np.finfo(np.float64).tiny)
    return similarities


@register_operation
class Deletion(Operation):
    """1 − sim(story, story without the sentence). A window of one sentence has nothing left to compare: 0.0."""

    name = "deletion"
    meaning = "how much the story changes when the sentence is left out"

    def orders(self, window: Window) -> Iterator[Order]:
        if window.size > 1:
            yield window.base
            for i in range(window.lo, window.hi):
                yield (*range(window.start, i), *range(i + 1, window.stop))

    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        return 1.0 - cosine(vectors[0], vectors[1:]) if window.size > 1 else np.zeros(1)

    def one_pass(self, sums: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sentence's tokens are left out of the mean, not of the text."""
        whole = sums.sum(axis=0) + rest
        return 1.0 - cosine(whole, whole - sums) if len(sums) > 1 else np.zeros(1)


@register_operation
class Shifting(Operation):
    """1 − mean sim(story, story with the sentence moved to another place of its window), over all other places.
    A window of one sentence has no other place: 0.0.

    Args:
        max_shifts: an approximation: no more than so many other places, the nearest, those before the sentence first.
    """

    name = "shifting"
    meaning = "how much the story changes when the sentence stands elsewhere in its window"

    def __init__(self, max_shifts: int | None = None) -> None:
        if max_shifts is not None and max_shifts < 1:
            raise ValueError(f"max_shifts={max_shifts}: a sentence is moved to one other place at least")
        self.max_shifts = max_shifts

    def orders(self, window: Window) -> Iterator[Order]:
        if window.size > 1:
            yield window.base
            for i in range(window.lo, window.hi):
                others = (*range(window.start, i), *range(i + 1, window.stop))
                for place in self._places(i, window):
                    before = place - window.start
                    yield (*others[:before], i, *others[before:])

    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        if window.size == 1:
            return np.zeros(1)
        # Each sentence has the same number of other places.
        similarities = cosine(vectors[0], vectors[1:]).reshape(window.size, -1)
        scores: NDArray[np.float64] = 1.0 - similarities.mean(axis=1)
        return scores

    def _places(self, sentence: int, window: Window) -> list[int]:
        others = [place for place in range(window.lo, window.hi) if place != sentence]
        if self.max_shifts is None or self.max_shifts >= len(others):
            return others
        return sorted(others, key=lambda place: abs(place - sentence))[: self.max_shifts]


@register_operation
class Disruption(Operation):
    """1 − sim(prefix up to the sentence, prefix before it). Before the first sentence of a window there is nothing of
    the window yet: 0.0, as in the paper's tables."""

    name = "disruption"
    meaning = "how much the sentence changes the story told so far"

    def orders(self, window: Window) -> Iterator[Order]:
        if window.size > 1:
            for i in range(window.lo, window.hi):
                yield tuple(range(window.start, i + 1))

    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        scores = np.zeros(window.size)
        if window.size > 1:
            scores[1:] = 1.0 - cosine(vectors[1:], vectors[:-1])
        return scores

    def one_pass(self, sums: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Running means of a story that is read to its end."""
        prefixes = np.cumsum(sums, axis=0) + rest
        return np.concatenate([np.zeros(1), 1.0 - cosine(prefixes[1:], prefixes[:-1])])


@register_operation
class Summarization(Operation):
    """sim(story, the sentence alone)."""

    name = "summarization"
    meaning = "how much of the story the sentence alone tells"

    def orders(self, window: Window) -> Iterator[Order]:
        yield window.base
        for i in range(window.lo, window.hi):
            yield (i,)

    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        return cosine(vectors[0], vectors[1:])

    def one_pass(self, sums: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sentence as it stands in the story."""
        return cosine(sums.sum(axis=0) + rest, sums)

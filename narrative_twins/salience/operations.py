"""The four operations of narrative salience, on sentence indices and vectors only: which orders of
sentences to embed, and how scores are computed from their embeddings.

Source: Sterner, Lascarides and Keller, "Contrastive Learning with Narrative Twins for Modeling
Story Salience".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from narrative_twins.stories.sentences import Span
from narrative_twins.stories.story import Order

if TYPE_CHECKING:
    from torch import Tensor

    from narrative_twins.encoder.tokenizer import Window

EXACTLY = "score exactly (approximate=None, in commands --exact)"
"""What a message advises if one pass can't be used."""


Item = TypeVar("Item")
Registered = TypeVar("Registered", bound=type)


class Registry(dict[str, Item], Generic[Item]):
    """Registered subclasses of a class: an instance of each by its name, in display order.

    Args:
        base: the class whose subclasses are registered.
        kind: what an instance is called in messages, with its article: `"an operation"`.
    """

    def __init__(self, base: type, kind: str) -> None:
        self.base: Any = base
        self.kind = kind
        self.noun = kind.split(" ", 1)[1]

    def add(self, subclass: Registered) -> Registered:
        """Class decorator that registers an instance of a class, made without arguments, under its
        `name`. A class that is defined again, as in a notebook, replaces itself. Raises ValueError
        if a different class has the name."""
        item: Any = subclass()
        earlier = self.get(item.name)
        if earlier is not None and type(earlier).__qualname__ != subclass.__qualname__:
            raise ValueError(
                f"{self.noun} {item.name!r} exists already ({type(earlier).__qualname__})"
            )
        self[item.name] = item
        return subclass

    def resolve(self, items: str | Item | Iterable[str | Item] | None = None) -> list[Item]:
        """Return the instances for one or several names or instances; None means all instances.
        Raises TypeError if an item is neither a name nor an instance, and ValueError if a name is
        unknown or missing, or if two different instances have one name."""
        named: Iterable[Any] = self.values() if items is None else [items]
        if isinstance(items, Iterable) and not isinstance(items, (str, self.base)):
            named = items
        resolved: dict[str, Item] = {}
        for item in named:
            if isinstance(item, str):
                if item not in self:
                    close = get_close_matches(item, self, n=1)
                    hint = f"; did you mean {close[0]!r}?" if close else ""
                    names = ", ".join(self)
                    raise ValueError(f"unknown {self.noun} {item!r}; choose from {names}{hint}")
                item = self[item]
            if not isinstance(item, self.base):
                raise TypeError(
                    f"{self.kind} is a name or `{self.base.__name__}`, not {item!r:.60}"
                )
            if resolved.setdefault(item.name, item) is not item:
                raise ValueError(f"two different instances have the name {item.name!r}")
        if not resolved:
            raise ValueError(f"no {self.noun} given; choose from {', '.join(self)}")
        return list(resolved.values())


@overload
def cosine(a: NDArray[np.floating[Any]], b: NDArray[np.floating[Any]]) -> NDArray[np.float64]: ...
@overload
def cosine(a: Tensor, b: Tensor) -> Tensor: ...


def cosine(a: Any, b: Any) -> Any:
    """Return the cosine similarity along the last axis, with broadcasting; 0 for a zero vector. The
    result for arrays is an array of float64. For torch's tensors it is a tensor of their dtype,
    through which gradients flow."""
    if hasattr(a, "requires_grad"):
        norms = a.norm(dim=-1) * b.norm(dim=-1)
        return (a * b).sum(dim=-1) / norms.clamp(min=1e-12)
    a64, b64 = np.asarray(a, np.float64), np.asarray(b, np.float64)
    norms = np.sqrt((a64 * a64).sum(axis=-1) * (b64 * b64).sum(axis=-1))
    return (a64 * b64).sum(axis=-1) / np.maximum(norms, np.finfo(np.float64).tiny)


def dot(a: Any, b: Any) -> Any:
    """Return the dot product along the last axis, with types as in `cosine`."""
    return (_in_float64(a) * _in_float64(b)).sum(axis=-1)


def euclidean(a: Any, b: Any) -> Any:
    """Return the negative Euclidean distance along the last axis, with types as in `cosine`."""
    return 0.0 - ((_in_float64(a) - _in_float64(b)) ** 2).sum(axis=-1) ** 0.5


def _in_float64(values: Any) -> Any:
    """Return an array in float64; tensors are returned unchanged."""
    return values if hasattr(values, "requires_grad") else np.asarray(values, np.float64)


Similarity: TypeAlias = Callable[[Any, Any], NDArray[np.float64]]
SIMILARITIES: dict[str, Similarity] = {"cosine": cosine, "dot": dot, "euclidean": euclidean}
"""The similarities of vectors by their names in sentence-transformers."""


class Operation(ABC):
    """A way to measure salience. `register_operation` makes a subclass usable everywhere.

    The engine embeds each distinct order of sentences from `orders` once, and passes one vector per
    order to `scores`. A vector pools the tokens of the window's sentences, wherever they are in the
    order. Higher scores are more salient; with nothing to compare, the score is 0.0.
    """

    name: ClassVar[str]
    """The name in `operations=` and the key of the scores."""
    meaning: ClassVar[str]
    """One line that explains the score to readers of a result."""
    comparison: ClassVar[str] = ""
    """A sentence for readers of a result on what `compared` does; empty if it changes nothing."""
    similarity: Similarity = staticmethod(cosine)
    """The function that the option `similarity` names. `scores` calls it on vectors, `one_pass` on
    sums. An operation whose class defines another similarity keeps that one."""

    @abstractmethod
    def orders(self, window: Window) -> Iterable[Order]:
        """Return the orders of sentences to embed, each with at least one sentence of the window.
        Yield them if there can be many: the engine stops at the limit of tokens per window."""

    @abstractmethod
    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the scores of the window's sentences, shape `(window.size,)`, from one vector per
        order, shape `(orders, dimensions)`. To be trained with `SalienceLoss`, an operation must
        also take torch's tensors, by `similarity` and methods that arrays and tensors share; all
        windows then have several sentences."""

    def compared(self, scores: NDArray[np.float64], windows: Sequence[Span]) -> NDArray[np.float64]:
        """Return the scores of a story, one per sentence, as ranks, stars and shades compare them;
        by default unchanged. An operation whose scores depend on the place in a window can return
        each score relative to the usual score at its place. `windows` are the story's windows."""
        return scores

    def one_pass(self, sums: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return approximate scores, shape `(window.size,)`, from the token states of one forward
        pass over the story; optional. To be trained in one pass, an operation must also take
        tensors here.

        Args:
            sums: the sum of the token states of each sentence of the window, shape `(window.size,
                dimensions)`; if `similarity` is not cosine, the last dimension counts tokens.
            rest: the sum of the states of other pooled tokens, shape `(dimensions,)`.
        """
        raise NotImplementedError(f"operation {self.name!r} does not implement one_pass")

    def itself(self, vectors: Any) -> Any:
        """Return the similarity of each vector with itself; for cosine this is the number 1."""
        return 1.0 if self.similarity is cosine else self.similarity(vectors, vectors)

    def change(self, vectors: Any, others: Any) -> NDArray[np.float64]:
        """Return the similarity of vectors to themselves minus their similarity to others: 1 − sim
        for cosine."""
        change: NDArray[np.float64] = self.itself(vectors) - self.similarity(vectors, others)
        return change

    @property
    def has_one_pass(self) -> bool:
        """Whether the operation implements `one_pass`."""
        return type(self).one_pass is not Operation.one_pass


OPERATIONS: Registry[Operation] = Registry(Operation, "an operation")
"""The registered operations by name, in display order."""
register_operation = OPERATIONS.add
"""Class decorator that registers an operation, see `Registry.add`."""


def resolve_operations(
    operations: str | Operation | Iterable[str | Operation] | None = None,
    *,
    one_pass: bool = False,
    similarity: str = "cosine",
) -> list[Operation]:
    """Return the operations for names or instances; for None all registered operations, or with
    `one_pass` all that implement it. All get the `similarity`, a name in `SIMILARITIES`, unless
    their class defines its own. Raises TypeError for an item that is neither a name nor an
    instance. Raises ValueError as `Registry.resolve`, and with `one_pass` if an operation does not
    implement it."""
    if operations is None and one_pass:
        operations = [operation for operation in OPERATIONS.values() if operation.has_one_pass]
    resolved = OPERATIONS.resolve(operations)
    for operation in resolved:
        if one_pass and not operation.has_one_pass:
            supported = ", ".join(each.name for each in OPERATIONS.values() if each.has_one_pass)
            raise ValueError(
                f"{operation.name} has no one-pass form; choose from {supported}, or {EXACTLY}"
            )
    return [with_similarity(operation, SIMILARITIES[similarity]) for operation in resolved]


def with_similarity(operation: Operation, similarity: Similarity) -> Operation:
    """Return a copy of an operation with this similarity; the operation itself if it has this
    similarity already, or if its class defines its own."""
    if operation.similarity is similarity or type(operation).similarity is not cosine:
        return operation
    operation = copy(operation)
    operation.similarity = similarity
    return operation


def comparisons(names: Iterable[str]) -> list[str]:
    """Return what readers must know about how the scores of these operations are compared, one
    sentence for each operation that has a `comparison`."""
    return [
        OPERATIONS[name].comparison
        for name in names
        if name in OPERATIONS and OPERATIONS[name].comparison
    ]


@register_operation
class Deletion(Operation):
    """Scores a sentence by 1 − sim(story, story without it); 0.0 in a window of one sentence."""

    name = "deletion"
    meaning = "how much the story changes when the sentence is left out"

    def orders(self, window: Window) -> Iterator[Order]:
        """Yield the story, then the story without each sentence of the window."""
        if window.size > 1:
            yield window.base
            for i in range(window.lo, window.hi):
                yield (*range(window.start, i), *range(i + 1, window.stop))

    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return 1 − sim(story, story without the sentence) for each sentence."""
        return self.change(vectors[0], vectors[1:]) if window.size > 1 else np.zeros(1)

    def one_pass(self, sums: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 1 − sim(story, story with the sentence's token states left out of the mean)."""
        total = sums.sum(axis=0) + rest
        return self.change(total, total - sums) if len(sums) > 1 else np.zeros(1)


@register_operation
class Shifting(Operation):
    """Scores a sentence by 1 − mean sim(story, story with the sentence moved), over all other
    positions in its window; 0.0 if there are none.

    Args:
        max_shifts: use at most this many other positions, the nearest, earlier ones first, so that
            training needs fewer texts. None uses all.
    """

    name = "shifting"
    meaning = "how much the story changes when the sentence is moved within its window"
    slope: ClassVar[float] = 0.4
    """In one pass, how much more a sentence counts per place, as a share of its token states."""
    reach: ClassVar[int] = 50
    """In one pass, the most places by which a sentence is moved."""

    def __init__(self, max_shifts: int | None = None) -> None:
        if max_shifts is not None and max_shifts < 1:
            raise ValueError(f"max_shifts={max_shifts}: it must be at least 1")
        self.max_shifts = max_shifts

    def orders(self, window: Window) -> Iterator[Order]:
        """Yield the story, then the story with one sentence moved: each sentence of the window in
        turn, to each other position in the window."""
        if window.size > 1:
            yield window.base
            for i in range(window.lo, window.hi):
                others = (*range(window.start, i), *range(i + 1, window.stop))
                for position in self._new_positions(i, window):
                    before = position - window.start
                    yield (*others[:before], i, *others[before:])

    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return 1 − mean sim(story, story with the sentence moved) for each sentence."""
        if window.size == 1:
            return np.zeros(1)
        # One row per sentence: all sentences have the same number of new positions.
        similarities = self.similarity(vectors[0], vectors[1:]).reshape(window.size, -1)
        scores: NDArray[np.float64] = self.itself(vectors[0]) - similarities.mean(axis=1)
        return scores

    def one_pass(self, sums: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score as if a sentence counted for more at a later place, since a plain mean does not
        depend on the order. A sentence that moves past others changes the sum of the story: the sum
        gains the states of the moved sentence, once for each sentence passed, and loses the states
        of the sentences passed. The score is the mean over the new places of 1 − sim(story, story +
        slope * change). For cosine, |slope * change|² / 2 approximates this, with the part of the
        change that is orthogonal to the story, relative to the length of the story's vector."""
        if len(sums) == 1:
            return np.zeros(1)
        story = sums.sum(axis=0) + rest
        length = (story * story).sum().clip(min=1e-12)
        is_cosine = self.similarity is cosine
        parts = sums - (sums @ story)[:, None] * story / length if is_cosine else sums
        total, moves = 0 * sums[:, 0], 0 * sums[:, 0]
        # Moves to later places, then, with the order reversed, to earlier places.
        for slope in (self.slope, -self.slope):
            change = 0 * parts
            for places in range(1, min(len(sums), self.reach + 1)):
                change = change[: len(sums) - places] + parts[:-places] - parts[places:]
                if is_cosine:
                    total[:-places] += (change * change).sum(axis=1)
                else:
                    total[:-places] += self.change(story, story + slope * change)
                moves[:-places] += 1
            backward = list(range(len(sums) - 1, -1, -1))
            parts, total, moves = parts[backward], total[backward], moves[backward]
        scores: NDArray[np.float64] = total / moves
        if is_cosine:
            scores = self.slope**2 / 2 * total / moves / length
        return scores

    def _new_positions(self, sentence: int, window: Window) -> list[int]:
        """Return the positions to move a sentence to: all others, or the nearest `max_shifts`."""
        others = [position for position in range(window.lo, window.hi) if position != sentence]
        if self.max_shifts is None or self.max_shifts >= len(others):
            return others
        return sorted(others, key=lambda position: abs(position - sentence))[: self.max_shifts]


@register_operation
class Disruption(Operation):
    """Scores a sentence by 1 − sim(prefix that ends with it, prefix before it); 0.0 for the first
    sentence of a window, which has no prefix in the window, as in the paper's tables."""

    name = "disruption"
    meaning = "how much the sentence changes the story so far"
    comparison = (
        "Disruption falls with the place in a window, as more has been told; ranks and highlights"
        " compare each score with what is usual at its place."
    )
    decline: ClassVar[float] = 1.25
    """After n sentences of a window, a usual score falls as n ** -`decline`: docs/agreement.md."""

    def orders(self, window: Window) -> Iterator[Order]:
        """Yield, for each sentence of the window, the text up to and including this sentence."""
        if window.size > 1:
            for i in range(window.lo, window.hi):
                yield tuple(range(window.start, i + 1))

    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return 1 − sim(prefix with the sentence, prefix before it) for each sentence."""
        return self._changes(vectors) if window.size > 1 else np.zeros(1)

    def compared(self, scores: NDArray[np.float64], windows: Sequence[Span]) -> NDArray[np.float64]:
        """Return each score relative to the usual score at its place, n ** -`decline` after n
        sentences of the window. The first sentence of a window has no score of its own: in the
        first window it keeps 0.0, in later windows it gets the median of the other sentences."""
        before = np.concatenate([np.arange(hi - lo) for lo, hi in windows])
        compared: NDArray[np.float64] = scores * before**self.decline
        if before.any():
            compared[1:][before[1:] == 0] = np.median(compared[before > 0])
        return compared

    def one_pass(self, sums: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 1 − sim(prefix, prefix before it), pooled from the token states of the story."""
        return self._changes(sums.cumsum(axis=0) + rest)

    def _changes(self, prefixes: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return 1 − sim(prefix, prefix before it) for each vector of `prefixes`, 0.0 first."""
        before = [0, *range(len(prefixes) - 1)]
        changes = self.change(prefixes, prefixes[before])
        changes[0] = 0.0
        return changes


@register_operation
class Summarization(Operation):
    """Scores a sentence by sim(story, the sentence alone)."""

    name = "summarization"
    meaning = "how much of the story the sentence alone tells"

    def orders(self, window: Window) -> Iterator[Order]:
        """Yield an order of all sentences read, then an order of each window sentence alone."""
        yield window.base
        for i in range(window.lo, window.hi):
            yield (i,)

    def scores(self, window: Window, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return sim(story, the sentence alone) for each sentence."""
        return self.similarity(vectors[0], vectors[1:])

    def one_pass(self, sums: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sim(story, the sentence's token states in the story) for each sentence."""
        return self.similarity(sums.sum(axis=0) + rest, sums)

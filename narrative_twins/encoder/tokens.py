"""A story as an encoder's tokenizer sees it: each sentence tokenized once, any order of them written in token ids,
the context that fits round a window, and what does not fit. No torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.stories.story import StoryError
from narrative_twins.stories.windows import Order, Span, Window

Ids: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]

_ANCHOR = "a"
_LINE_BREAK = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


class Chunk(NamedTuple):
    """Tokens read in one forward pass, special tokens included, and which of them are pooled; both of shape (T,)."""

    ids: Ids
    pooled: Mask


class StoryTokenizer:
    """Turns stories into token ids for an encoder.

    Args:
        tokenizer: a `transformers` tokenizer.
        context_tokens: how many tokens, special tokens included, the encoder reads at once.
        lowercase: whether text is lowercased first.

    Raises:
        ValueError: the special tokens alone fill the context.
    """

    def __init__(self, tokenizer: Any, context_tokens: int, lowercase: bool = False) -> None:
        self.tokenizer = tokenizer
        self.lowercase = lowercase
        self._cuts_at_spaces = _cuts_at_spaces(tokenizer)
        bare, full = self.ids([_ANCHOR])[0], self.ids([_ANCHOR], special=True)[0]
        at = next(i for i in range(len(full) + 1) if np.array_equal(full[i : i + len(bare)], bare))
        self.head, self.tail = full[:at], full[at + len(bare) :]
        self.context_tokens = context_tokens
        self.room = context_tokens - len(self.head) - len(self.tail)
        if self.room < 1:
            special = len(self.head) + len(self.tail)
            raise ValueError(f"context_tokens={context_tokens} leaves no room beside {special} special tokens")

    def ids(self, texts: list[str], special: bool = False) -> list[Ids]:
        """Token ids of each text, in full length."""
        rows = self.tokenizer(texts, add_special_tokens=special, return_attention_mask=False, verbose=False)
        return [np.asarray(row, np.int32) for row in rows["input_ids"]]

    def texts(self, sentences: Sequence[str]) -> list[str]:
        """Sentences as they are read: line breaks inside a sentence are spaces."""
        texts = [_LINE_BREAK.sub(" ", sentence).strip() for sentence in sentences]
        return [text.lower() for text in texts] if self.lowercase else texts

    def joined(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
        """Token ids of texts joined by a space, without special tokens and in full length; and for each token the
        place of the text that holds most of its characters. A token that is only the space between two texts belongs
        to the one after it.

        Raises:
            StoryError: the tokenizer is a slow one, which can't say which characters a token holds.
        """
        if not self.tokenizer.is_fast:
            raise StoryError(
                "this text can't be put together from its sentences with the model's slow tokenizer; use a fast one"
            )
        text = " ".join(texts)
        row = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        place = np.repeat(np.arange(len(texts)), [len(one) + (at > 0) for at, one in enumerate(texts)])
        held = np.ones(len(text))
        held[np.cumsum([len(one) + 1 for one in texts[:-1]], dtype=int) - 1] = 0
        owners = []
        for start, end in row["offset_mapping"]:
            counts = np.bincount(place[start:end], held[start:end])
            owners.append(counts.argmax() if counts.any() else place[min(start, len(text) - 1)])
        return np.asarray(row["input_ids"], np.int32), np.asarray(owners, np.int32)

    def tokenize(self, sentences: Sequence[str]) -> TokenizedStory:
        """Tokenize a story.

        Raises:
            StoryError: a sentence has no token.
        """
        texts = self.texts(sentences)
        n = len(texts)
        # One call: every sentence as the first of a text and after another one, the story told forwards and backwards.
        anchored = [f"{_ANCHOR} {text}" for text in texts]
        rows = self.ids([_ANCHOR, " ".join(texts), " ".join(reversed(texts)), *texts, *anchored])
        anchor, forwards, backwards = rows[:3]
        first, later = rows[3 : 3 + n], [row[len(anchor) :] for row in rows[3 + n :]]
        for i, text in enumerate(texts):
            if not len(first[i]):
                raise StoryError(f"sentence {i} ({text[:40]!r}) has no token for this encoder; leave it out")
        # Where no token reaches across a space, the ids of a text are those of its sentences in a row, unless something
        # in a sentence acts on what stands beside it: that shows in the two tellings.
        exact = (
            self._cuts_at_spaces
            and all(np.array_equal(row[: len(anchor)], anchor) for row in rows[3 + n :])
            and np.array_equal(np.concatenate([first[0], *later[1:]]), forwards)
            and np.array_equal(np.concatenate([first[-1], *later[-2::-1]]), backwards)
        )
        return TokenizedStory(self, texts, first, later, exact)


def _cuts_at_spaces(tokenizer: Any) -> bool:
    """Whether no token of the vocabulary reaches from one word into the next."""
    spaced = "".join(map(str, tokenizer.convert_ids_to_tokens(tokenizer(f"{_ANCHOR} {_ANCHOR}")["input_ids"])))
    signs = "".join(sign for sign in "\u0120\u2581 " if sign in spaced)
    added = {token.content for token in tokenizer.added_tokens_decoder.values()}
    # Byte-level signs of tab and line breaks, which with spaces make up tokens of white space alone.
    across = re.compile(rf"[^{signs}\s\u0109-\u010d][{signs}]") if signs else None
    return not any(re.search(r"\S\s", token) for token in added) and (
        across is None or not any(across.search(token) for token in tokenizer.get_vocab().keys() - added)
    )


@dataclass
class TokenizedStory:
    """One story in token ids. Made by `StoryTokenizer.tokenize`.

    Attributes:
        texts: the sentences as they are read: line breaks inside a sentence are spaces.
        first, later: ids of each sentence at the beginning of a text, and after another sentence.
        exact: whether ids put in a row are what the tokenizer makes of the joined text; if not, texts are tokenized.
    """

    tokenizer: StoryTokenizer
    texts: list[str]
    first: list[Ids]
    later: list[Ids]
    exact: bool

    def __post_init__(self) -> None:
        if self.exact:
            lengths = [len(ids) for ids in self.later]
            # A sentence may take a token more where it comes first, and any sentence may.
            slack = max(0, *(len(a) - len(b) for a, b in zip(self.first, self.later, strict=True)))
        else:
            # How many tokens a text has shows only when it is tokenized; each sentence alone and a space are the most.
            lengths, slack = [len(ids) + 1 for ids in self.first], 0
        self._room = max(1, self.tokenizer.room - slack)
        self._ends = np.concatenate([[0], np.cumsum(lengths)])

    def window(self, span: Span) -> Window:
        """The window with as many whole sentences of the story round it as fit the context, as evenly on both sides as
        the story allows."""
        lo, hi = span
        ends = self._ends
        if ends[-1] <= self._room:
            return Window(0, lo, hi, len(self.texts))
        spare = self._room - (ends[hi] - ends[lo])
        if spare <= 0:
            return Window(lo, lo, hi, hi)
        after = ends[-1] - ends[hi]
        start = int(np.searchsorted(ends, ends[lo] - max(spare // 2, spare - after)))
        stop = int(np.searchsorted(ends, ends[hi] + spare - (ends[lo] - ends[start]), side="right")) - 1
        # What whole sentences on the right left over may hold one more on the left.
        start = int(np.searchsorted(ends, ends[lo] - (spare - (ends[stop] - ends[hi]))))
        return Window(start, lo, hi, stop)

    @property
    def room(self) -> int:
        """How many tokens of the story are read at once."""
        return self._room

    def size(self, span: Span) -> int:
        """How many tokens a run of sentences has."""
        return int(self._ends[span[1]] - self._ends[span[0]])

    def length(self, order: Order) -> int:
        """How many tokens the text of an order of sentences has, nearly."""
        return sum(len(self.later[i]) for i in order)

    def cut_tokens(self, window: Window) -> int:
        """How many of the story's tokens are not read together with the window."""
        read = int(self._ends[window.stop] - self._ends[window.start])
        return int(self._ends[-1]) - min(read, self._room)

    def chunks(self, order: Order, pooled: Span | None) -> list[Chunk]:
        """An order of sentences as chunks to encode: one, or several in a row where it exceeds the context.

        Args:
            order: the sentences.
            pooled: half-open range of the sentences whose tokens are pooled, None for all tokens of the text with the
                special ones.

        Raises:
            StoryError: no token of the order belongs to a pooled sentence.
        """
        ids, owners = self._ids_of(order)
        own = np.ones(len(ids), bool) if pooled is None else (owners >= pooled[0]) & (owners < pooled[1])
        if not own.any():
            raise StoryError(f"sentences {order} have no token in the window {pooled}; there is nothing to pool")
        return self._passages(ids, own, special=pooled is None)

    def parts(self, window: Window, special: bool) -> tuple[list[list[Chunk]], list[list[Chunk]]]:
        """The text of a window with what is read round it, once for each sentence of the window with only its tokens
        pooled; and, where they are asked for, once with only the special tokens.

        Raises:
            StoryError: a sentence has no token of its own.
        """
        ids, owners = self._ids_of(window.base)
        texts = []
        for i in range(window.lo, window.hi):
            own = owners == i
            if not own.any():
                raise StoryError(f"sentence {i} ({self.texts[i][:40]!r}) has no token of its own in this text")
            texts.append(self._passages(ids, own, special=False))
        return texts, [self._passages(ids, np.zeros(len(ids), bool), special=True)] if special else []

    def _passages(self, ids: Ids, own: Mask, special: bool) -> list[Chunk]:
        """A text as chunks of which some tokens are pooled, and perhaps the special ones."""
        head, tail, room = self.tokenizer.head, self.tokenizer.tail, self.tokenizer.room
        ends = np.full(len(head), special), np.full(len(tail), special)
        return [
            Chunk(np.concatenate([head, ids[at : at + room], tail]), np.concatenate([ends[0], mask, ends[1]]))
            for at in range(0, len(ids), room)
            if (mask := own[at : at + room]).any() or special
        ]

    def _ids_of(self, order: Order) -> tuple[Ids, Ids]:
        """Ids of the text of an order of sentences, and the sentence each token belongs to."""
        return self._concatenated(order) if self.exact else self._joined(order)

    def _concatenated(self, order: Order) -> tuple[Ids, Ids]:
        """Ids of the sentences in a row, and the sentence each token belongs to."""
        rows = [self.first[order[0]], *(self.later[i] for i in order[1:])]
        return np.concatenate(rows), np.repeat(np.array(order, np.int32), [len(row) for row in rows])

    def _joined(self, order: Order) -> tuple[Ids, Ids]:
        """Ids of the joined text, and the sentence each token belongs to."""
        ids, places = self.tokenizer.joined([self.texts[i] for i in order])
        return ids, np.array(order, np.int32)[places]

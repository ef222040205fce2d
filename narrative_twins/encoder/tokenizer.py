"""Tokenization of stories: the ids of texts, concatenated from ids of sentences, and the sentences
that are read around a window."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.loading import CheckpointSettings
from narrative_twins.stories.sentences import Span
from narrative_twins.stories.story import Order, StoryError

Ids: TypeAlias = NDArray[np.int32]
_RangeIds: TypeAlias = tuple[list[Ids], list[Ids], bool]
"""What `StoryTokenizer._range_ids` yields for a range of sentences."""
Mask: TypeAlias = NDArray[np.bool_]

_ANCHOR = "a"
"""A text that is tokenized before a sentence, to get the ids that the sentence has in a text."""
PIECE = 50_000
"""The most characters of a text that are tokenized at once."""
_LINE_BREAK = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


class Window(NamedTuple):
    """A window of a story: the sentences `[lo, hi)` to score, and the sentences `[start, stop)` to
    read, which are the complete story or as much of it around the window as fits the context."""

    start: int
    lo: int
    hi: int
    stop: int

    @property
    def base(self) -> Order:
        """The indices of the sentences that are read, in story order."""
        return tuple(range(self.start, self.stop))

    @property
    def size(self) -> int:
        """The number of sentences that are scored."""
        return self.hi - self.lo


class Chunk(NamedTuple):
    """A text for one forward pass: its token ids, special tokens included, and a mask of the tokens
    that are pooled; both of shape (T,)."""

    ids: Ids
    pooled: Mask


class StoryTokenizer:
    """Turns stories into token ids for an encoder.

    Args:
        tokenizer: a `transformers` tokenizer.
        context_tokens: how many tokens the encoder reads at once; ValueError if special tokens and
            the prompt alone fill the context.
        settings: settings of the checkpoint: whether text is lowercased, and the prompt.

    Attributes:
        head, tail: ids of the special tokens before and after a text.
        prompt: the prompt, which is between the head and the text.
        prompt_ids: token ids of the prompt without spaces at its end, which belong to the text.
        unpooled: how many tokens at the start are not pooled; 0 if the prompt is pooled.
        max_text_tokens: how many tokens of a text fit between the special tokens and the prompt.
        pad_id: the token id to pad with.
    """

    def __init__(
        self, tokenizer: Any, context_tokens: int, settings: CheckpointSettings | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.settings = settings = settings or CheckpointSettings()
        self._splits_at_spaces = _splits_at_spaces(tokenizer)
        # Special tokens are what the tokenizer puts around a sample text.
        bare, full = self.ids([_ANCHOR])[0], self.ids([_ANCHOR], special=True)[0]
        start = next(
            i for i in range(len(full) + 1) if np.array_equal(full[i : i + len(bare)], bare)
        )
        self.head, self.tail = full[:start], full[start + len(bare) :]
        self._anchor = bare
        self.prompt = settings.prompt.lower() if settings.lowercase else settings.prompt
        self.prompt_ids, self.unpooled = bare[:0], 0
        if self.prompt:
            self.prompt_ids = self.ids([self.prompt.rstrip()])[0]
            if not settings.include_prompt:
                # As in sentence-transformers, even if its last token is another one before a text.
                full = self.ids([self.prompt], special=True)[0]
                self.unpooled = len(full) - (full[-1] in tokenizer.all_special_ids)
        self.context_tokens = context_tokens
        special = len(self.head) + len(self.prompt_ids) + len(self.tail)
        self.max_text_tokens = context_tokens - special
        # Padding is masked, so any id will do if the tokenizer has no padding token.
        self.pad_id: int = tokenizer.pad_token_id or 0
        if self.max_text_tokens < 1:
            raise ValueError(
                f"context_tokens={context_tokens} leaves no room for text: there are {special}"
                f" special tokens{' and tokens of the prompt' if self.prompt else ''}"
            )

    def probes(self) -> tuple[Ids, Ids]:
        """Return the token ids of two texts that differ only in the last token, to test a model."""
        *start, last = plain_ids(self.tokenizer)[-3:]
        first = np.array([*self.head, *start, last], np.int32)
        second = np.array([*self.head, *start, start[0]], np.int32)
        return first, second

    def ids(self, texts: list[str], special: bool = False) -> list[Ids]:
        """Return the token ids of each text, not truncated; `special` adds special tokens."""
        rows = self.tokenizer(
            texts, add_special_tokens=special, return_attention_mask=False, verbose=False
        )
        return [np.asarray(row, np.int32) for row in rows["input_ids"]]

    def ids_in_pieces(self, text: str, later: bool = False) -> Ids:
        """Return the token ids of a sentence of any length (`text`), as the first sentence of a
        text or, with `later`, as a later one. The sentence is tokenized in pieces of at most
        `PIECE` characters, since a tokenizer needs a kilobyte for each character."""
        rows: list[Ids] = []
        for piece in _pieces(text):
            is_first = not later and not rows
            before, start = (
                (self.prompt, self.prompt_ids) if is_first else (f"{_ANCHOR} ", self._anchor)
            )
            rows.append(self.ids([before + piece])[0][len(start) :])
        return np.concatenate(rows)

    def texts(self, sentences: Sequence[str]) -> list[str]:
        """Return sentences prepared for tokenization: line breaks become spaces, and sentences are
        lowercased if the settings say so."""
        texts = [_LINE_BREAK.sub(" ", sentence).strip() for sentence in sentences]
        return [text.lower() for text in texts] if self.settings.lowercase else texts

    def tokenize_joined(self, texts: Sequence[str]) -> tuple[Ids, Ids, Ids]:
        """Tokenize the prompt followed by texts joined by spaces, without special tokens or
        truncation. Returns the token ids of the prompt, the token ids of the texts, and for each
        token of the texts the index of its text. A token belongs to the text that has most of its
        characters; a token that is only a space belongs to the text after the space. Raises
        NotImplementedError for a slow tokenizer, which does not know the characters of tokens."""
        text = self.prompt + " ".join(texts)
        encoding = self.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        # For each character the text it belongs to (0 for the prompt), and its weight: a space
        # before a text belongs to it, with weight 0, so that it decides only about tokens without
        # any other character.
        bare = len(self.prompt.rstrip())
        spaces = [len(self.prompt) - bare, *[1] * (len(texts) - 1)]
        sizes = np.array([(0, bare), *zip(spaces, map(len, texts), strict=True)])
        text_of = np.repeat(np.arange(len(sizes)), sizes.sum(axis=1))
        weights = np.repeat(np.tile([0.0, 1.0], len(sizes)), sizes.ravel())
        majority = []
        for start, end in encoding["offset_mapping"]:
            counts = np.bincount(text_of[start:end], weights[start:end])
            at = min(start, len(text) - 1)
            majority.append(counts.argmax() if counts.any() else text_of[at])
        ids, owners = np.array(encoding["input_ids"], np.int32), np.array(majority, np.int32) - 1
        count = np.count_nonzero(owners < 0)
        return ids[:count], ids[count:], owners[count:]

    def around(
        self, prompt: Ids, ids: Ids, marks: NDArray[Any], special: int, none: int
    ) -> tuple[Ids, NDArray[Any]]:
        """Put the prompt and special tokens around a text. The mark of a token says which window
        pools the token, or whether it is pooled. `ids`, shape (T,), and `marks`, shape (..., T),
        are the ids and marks of the text. The prompt and special tokens get the mark `special`. If
        `special` is not `none`, the mark of tokens that are not pooled, the first `unpooled` tokens
        get `none`. Returns all ids and all marks, shapes (N,) and (..., N)."""
        row = np.concatenate([self.head, prompt, ids, self.tail])
        all_marks = np.full((*marks.shape[:-1], len(row)), special, marks.dtype)
        start = len(self.head) + len(prompt)
        all_marks[..., start : start + len(ids)] = marks
        if special != none:
            all_marks[..., : min(self.unpooled, len(row) - 1)] = none
        return row, all_marks

    def tokenize(self, sentences: Sequence[str]) -> TokenizedStory:
        """Tokenize the sentences of a story. Raises StoryError if a sentence has no tokens."""
        (story,) = self.tokenize_all([sentences])
        if isinstance(story, StoryError):
            raise story
        return story

    def tokenize_all(
        self, stories: Sequence[Sequence[str]]
    ) -> Iterator[TokenizedStory | StoryError]:
        """Yield the tokens of each story (a sequence of sentences), or a StoryError if a sentence
        of the story has no tokens. Short stories are tokenized together in one call of the
        tokenizer."""
        prepared = [self.texts(sentences) for sentences in stories]
        spans = [list(_ranges(texts)) for texts in prepared]
        pairs = zip(prepared, spans, strict=True)
        ranges = [texts[lo:hi] for texts, each in pairs for lo, hi in each]
        are_short = sum(len(text) for texts in ranges for text in texts) <= PIECE
        groups = [ranges] if are_short else [[texts] for texts in ranges]
        tokenized = chain.from_iterable(map(self._range_ids, groups))
        for texts, each in zip(prepared, spans, strict=True):
            yield self._story_of_ranges(texts, [lo for lo, _ in each], tokenized)

    def _story_of_ranges(
        self, texts: list[str], starts: Sequence[int], tokenized: Iterator[_RangeIds]
    ) -> TokenizedStory | StoryError:
        """Join the next values of `tokenized`, one for each range of sentences, whose first ones
        are `starts`. Returns a StoryError if a sentence has no tokens."""
        first: list[Ids] = []
        later: list[Ids] = []
        concatenates = self._splits_at_spaces
        for lo in starts:
            # The first sentence of a range is also the last one of the range before it.
            at_start, after, range_concatenates = next(tokenized)
            first += at_start[len(first) - lo :]
            later += after[len(later) - lo :]
            concatenates = concatenates and range_concatenates
        for i, ids in enumerate(first):
            if not len(ids):
                sentence = f"sentence {i} ({texts[i][:40]!r})"
                return StoryError(f"{sentence} has no tokens for this encoder; remove it")
        return TokenizedStory(self, texts, first, later, concatenates)

    def _range_ids(self, ranges: list[list[str]]) -> Iterator[_RangeIds]:
        """Yield three values for each list of neighboring sentences: the token ids of each sentence
        at the start of a text, the token ids of each sentence after another one, and whether such
        ids, concatenated in any order of the sentences, are the ids of their text."""
        if ranges and len(text := ranges[0][0]) > PIECE:
            yield [self.ids_in_pieces(text)], [self.ids_in_pieces(text, later=True)], True
            return
        starts = [[*texts, " ".join(texts), " ".join(texts[::-1])] for texts in ranges]
        plain = self._ids_after(self.prompt, self.prompt_ids, starts)
        # With most tokenizers, sentences have the same ids at the start of a text and later.
        alike = [begin and _concatenates(rows[:-2], rows[:-2], *rows[-2:]) for rows, begin in plain]
        differ = [texts for texts, is_alike in zip(ranges, alike, strict=True) if not is_alike]
        anchored = self._ids_after(f"{_ANCHOR} ", self._anchor, differ)
        for ((*first, forwards, backwards), begin), is_alike in zip(plain, alike, strict=True):
            if is_alike:
                yield first, first, True
                continue
            later, begin_too = anchored.pop(0)
            concatenates = begin and begin_too and _concatenates(first, later, forwards, backwards)
            yield first, later, concatenates

    def _ids_after(
        self, before: str, start: Ids, lists: list[list[str]]
    ) -> list[tuple[list[Ids], bool]]:
        """Tokenize several lists of texts in one call, each text after `before`. `start` are the
        ids of `before` alone. Returns for each list: the ids of each text without `start`, and
        whether the ids of every text began with `start`."""
        texts = [before + text for each in lists for text in each]
        rows = iter(self.ids(texts) if texts else [])
        grouped = [list(islice(rows, len(each))) for each in lists]
        return [
            (
                [row[len(start) :] for row in each],
                all(np.array_equal(row[: len(start)], start) for row in each),
            )
            for each in grouped
        ]


def _concatenates(first: list[Ids], later: list[Ids], forwards: Ids, backwards: Ids) -> bool:
    """Return whether the ids of sentences, concatenated, are the ids of their text, both in this
    and in reverse order. `first` and `later` have the ids of each sentence at the start of a text
    and after another sentence. `forwards` and `backwards` are the ids of the two texts."""
    return np.array_equal(np.concatenate([first[0], *later[1:]]), forwards) and np.array_equal(
        np.concatenate([first[-1], *later[-2::-1]]), backwards
    )


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of at most `PIECE` characters. Where possible, a piece ends before a
    space, and the next piece begins after the space."""
    start = 0
    while len(text) - start > PIECE:
        space = text.rfind(" ", start + PIECE // 2, start + PIECE)
        stop = start + PIECE if space < 0 else space
        yield text[start:stop]
        start = stop + (space >= 0)
    yield text[start:]


def _ranges(texts: Sequence[str]) -> Iterator[Span]:
    """Yield half-open ranges of sentences with at most `PIECE` characters in a range. A range
    begins with the last sentence of the range before it, as in (0, 4), (3, 7), so that all
    neighbors are together in a range. If these two neighbors have too many characters, the range
    begins one sentence later. A sentence of more than `PIECE` characters is a range by itself."""
    lo, size = 0, 0
    for i, text in enumerate(texts):
        if i > lo and size + len(text) > PIECE:
            yield lo, i
            # The overlap is left out if the two sentences don't fit.
            lo = i - 1 if len(texts[i - 1]) + len(text) <= PIECE else i
            size = sum(map(len, texts[lo:i]))
        size += len(text) + 1
    yield lo, len(texts)


def plain_ids(tokenizer: Any) -> list[int]:
    """Return the ids of a tokenizer's vocabulary in ascending order, without special tokens."""
    return sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))


def padded(rows: Sequence[Ids], pad_id: int) -> tuple[NDArray[np.int64], Mask]:
    """Return the token ids of texts, padded on the right with `pad_id`, and a mask of the tokens
    that are not padding; both of shape (texts, tokens of the longest text)."""
    ids = np.full((len(rows), max(map(len, rows), default=0)), pad_id, np.int64)
    is_token = np.arange(ids.shape[1]) < np.array([len(row) for row in rows])[:, None]
    ids[is_token] = np.concatenate(rows) if rows else []
    return ids, is_token


def check_vocabulary(name: object, tokenizer: Any, model: Any) -> None:
    """Check that a tokenizer has a vocabulary, and that a `transformers` model has an embedding for
    each of its tokens. Raises ValueError otherwise; the message names the model by `name`."""
    if len(plain_ids(tokenizer)) < 3:
        raise ValueError(
            f"the tokenizer of {str(name)!r} has no vocabulary; its files, such as tokenizer.json,"
            " are missing"
        )
    size = getattr(model.get_input_embeddings(), "num_embeddings", None)
    token, last = max(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if size is not None and last >= size:
        raise ValueError(
            f"the tokenizer of {str(name)!r} has the id {last} ({token!r}), and the model {size}"
            " ids; it is of another model, or tokens were added: save the model with its"
            " tokenizer, or after model.resize_token_embeddings(len(tokenizer))"
        )


def model_limit(model: Any, tokenizer: Any, asked: int | None = None) -> int:
    """Return how many tokens a model reads at once: its number of positions or the tokenizer's
    limit, whichever is smaller; 512 if neither is known. Positions that RoBERTa models reserve for
    padding are not counted. The result is at most `asked`, if that is set."""
    # A tokenizer without a limit has a huge number here.
    limits = [getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length]
    limits += [table.num_embeddings - first_position(model) for table in _position_tables(model)]
    finite = (limit for limit in limits if isinstance(limit, int) and 0 < limit < 10**9)
    limit = min(finite, default=512)
    return min(limit, asked or limit)


def first_position(model: Any) -> int:
    """Return the position id of a text's first token: 0, but in RoBERTa the padding id plus 1."""
    paddings = (table.padding_idx for table in _position_tables(model))
    return max((padding + 1 for padding in paddings if padding is not None), default=0)


def _position_tables(model: Any) -> list[Any]:
    """Return the modules of a model that look up embeddings of positions in a table."""
    return [
        module
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and hasattr(module, "padding_idx")
    ]


def _splits_at_spaces(tokenizer: Any) -> bool:
    """Return whether no token of a tokenizer's vocabulary extends from one word into the next."""
    # How the vocabulary writes a space: byte-level, as SentencePiece does, plainly, or not at all.
    sample = "".join(
        map(str, tokenizer.convert_ids_to_tokens(tokenizer(f"{_ANCHOR} {_ANCHOR}")["input_ids"]))
    )
    spaces = "".join(sign for sign in "\u0120\u2581 " if sign in sample)
    added = {token.content for token in tokenizer.added_tokens_decoder.values()}
    # A space after anything but white space; U+0109 to U+010D are tab and line breaks in byte-level
    # vocabularies.
    across = re.compile(rf"[^{spaces}\s\u0109-\u010d][{spaces}]") if spaces else None
    return not any(re.search(r"\S\s", token) for token in added) and (
        across is None
        or not any(across.search(token) for token in tokenizer.get_vocab().keys() - added)
    )


@dataclass
class TokenizedStory:
    """The token ids of a story, from `StoryTokenizer.tokenize`.

    Attributes:
        tokenizer: the `StoryTokenizer` that made the ids.
        texts: the sentences, prepared by `StoryTokenizer.texts`.
        first, later: for each sentence its ids at the start of a text, and after another sentence.
        concatenates: whether the ids of a text are the concatenated ids of its sentences; if not,
            the sentences of each text are joined and tokenized again.
    """

    tokenizer: StoryTokenizer
    texts: list[str]
    first: list[Ids]
    later: list[Ids]
    concatenates: bool

    def __post_init__(self) -> None:
        if self.concatenates:
            lengths = [len(ids) for ids in self.later]
            # A sentence may have more tokens at the start of a text, and any sentence may come
            # first in an order.
            slack = max(0, *(len(a) - len(b) for a, b in zip(self.first, self.later, strict=True)))
        else:
            # The length of a text is known only after tokenizing it; each sentence alone plus a
            # space is the maximum.
            lengths = [len(ids) + 1 for ids in self.first]
            slack = 0
        # How many of the story's tokens can be read at once.
        self.max_text_tokens = max(1, self.tokenizer.max_text_tokens - slack)
        # How many tokens the first i sentences have, for each i.
        self._ends = np.concatenate([[0], np.cumsum(lengths)])

    def window(self, span: Span) -> Window:
        """Return the window of the sentences `span`. The window reads as many whole sentences
        around `span` as fit the context, evenly on both sides if possible."""
        lo, hi = span
        ends = self._ends
        if ends[-1] <= self.max_text_tokens:
            return Window(0, lo, hi, len(self.texts))
        spare = self.max_text_tokens - (ends[hi] - ends[lo])
        if spare <= 0:
            return Window(lo, lo, hi, hi)
        # Before the window: half of the spare tokens, or what the sentences after it do not need.
        after = ends[-1] - ends[hi]
        start = int(np.searchsorted(ends, ends[lo] - max(spare // 2, spare - after)))
        # After the window: all that is left.
        last = ends[hi] + spare - (ends[lo] - ends[start])
        stop = int(np.searchsorted(ends, last, side="right")) - 1
        # Tokens that are left after the window may hold another sentence before it.
        start = int(np.searchsorted(ends, ends[lo] - (spare - (ends[stop] - ends[hi]))))
        return Window(start, lo, hi, stop)

    def one_pass_spans(self, share: float) -> Iterator[Span]:
        """Yield half-open ranges of sentences that together are the story; in one pass, the tokens
        of a range are pooled from one text, which `window` selects around it. A story that fits the
        context is one range. The texts of a longer story begin at even distances of at most `share`
        of the context, and a range has the sentences in the middle of its text. A range fits the
        context unless it is a single sentence."""
        ends, room = self._ends, self.max_text_tokens
        excess = int(ends[-1]) - room
        more = max(0, math.ceil(excess / (share * room)))  # texts after the first
        borders = [room / 2 + excess * (i + 0.5) / more for i in range(more)]
        start = 0
        for border in [*borders, ends[-1]]:
            last = int(np.searchsorted(ends, border, side="right")) - 1
            while start < last:
                fits = int(np.searchsorted(ends, ends[start] + room, side="right")) - 1
                stop = min(last, max(fits, start + 1))
                yield start, stop
                start = stop

    def cut_tokens(self, window: Window) -> int:
        """Return how many of the story's tokens are not read together with a window."""
        read = int(self._ends[window.stop] - self._ends[window.start])
        return int(self._ends[-1]) - min(read, self.max_text_tokens)

    def chunks(self, order: Order, pooled: Span | None) -> list[Chunk]:
        """Return the text of an order of sentences as chunks to encode: one chunk, or several if
        the text exceeds the context. `pooled` is the half-open range of sentences whose tokens are
        pooled; None pools all tokens, special tokens included. Raises StoryError if no token is
        pooled."""
        prompt, ids, owners = self._ids_of(order)
        mask = np.ones(len(ids), bool)
        if pooled is not None:
            mask = (owners >= pooled[0]) & (owners < pooled[1])
        if not mask.any():
            raise StoryError(
                f"sentences {order} have no tokens in the window {pooled}: there is nothing to pool"
            )
        return self._split(prompt, ids, mask[None], special=pooled is None)[0]

    def sentence_chunks(
        self, window: Window, special: bool
    ) -> tuple[list[list[Chunk]], list[list[Chunk]]]:
        """Return the chunks of the text that a window reads, for several choices of the tokens to
        pool. The first list has an element for each sentence of the window: the chunks with the
        tokens of this sentence pooled. The second list has, with `special`, one element: the chunks
        with special tokens and the prompt pooled; otherwise it is empty. Raises StoryError if a
        sentence has no tokens."""
        prompt, ids, owners = self._ids_of(window.base)
        masks = owners == np.arange(window.lo, window.hi)[:, None]
        if (missing := np.flatnonzero(~masks.any(axis=1))).size:
            i = window.lo + int(missing[0])
            raise StoryError(
                f"sentence {i} ({self.texts[i][:40]!r}) has no tokens of its own in this text"
            )
        texts = self._split(prompt, ids, masks, special=False)
        nothing = np.zeros((1, len(ids)), bool)
        rest = self._split(prompt, ids, nothing, special=True) if special else []
        return texts, [chunks for chunks in rest if chunks]

    def _split(self, prompt: Ids, ids: Ids, masks: Mask, special: bool) -> list[list[Chunk]]:
        """Split a text of T tokens into chunks that fit the context, each with the prompt before
        it. `masks`, shape (masks, T), say which tokens of the text to pool; with `special`, special
        tokens are pooled too. Returns for each mask the chunks in which a token is pooled."""
        tokens = self.tokenizer
        room = max(1, tokens.max_text_tokens + len(tokens.prompt_ids) - len(prompt))
        texts: list[list[Chunk]] = [[] for _ in masks]
        for start in range(0, len(ids), room):
            at = slice(start, start + room)
            part, pooled = tokens.around(prompt, ids[at], masks[:, at], special, False)
            for text, mask in zip(texts, pooled, strict=True):
                if mask.any():
                    text.append(Chunk(part, mask))
        return texts

    def _ids_of(self, order: Order) -> tuple[Ids, Ids, Ids]:
        """Return for an order of sentences: the token ids of the prompt, the token ids of the text,
        and for each token of the text the index of its sentence."""
        sentences = np.array(order, np.int32)
        if not self.concatenates:
            texts = [self.texts[i] for i in order]
            prompt, ids, owners = self.tokenizer.tokenize_joined(texts)
            return prompt, ids, sentences[owners]
        rows = [self.first[order[0]], *(self.later[i] for i in order[1:])]
        owners = np.repeat(sentences, [len(row) for row in rows])
        return self.tokenizer.prompt_ids, np.concatenate(rows), owners

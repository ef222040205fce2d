"""Token ids of stories: equal to the tokenizer's own result; the context around windows, and long
texts."""

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from narrative_twins import Story, StoryError
from narrative_twins.encoder import tokenizer
from narrative_twins.encoder.loading import CheckpointSettings
from narrative_twins.encoder.tokenizer import StoryTokenizer

from support.models import DECODERS, FAMILIES, small, tokenizer_of
from support.strategies import any_text, sentence, stories


@cache
def tokens_of(kind: str, context_tokens: int = 512) -> StoryTokenizer:
    return StoryTokenizer(tokenizer_of(kind), context_tokens)


@pytest.mark.parametrize("kind", [*FAMILIES, "superwords"])
@settings(max_examples=60)
@given(sentences=st.lists(st.one_of(sentence, any_text), min_size=1, max_size=6), data=st.data())
def test_ids_of_any_order_equal_those_of_the_joined_text(kind, sentences, data):
    """The ids of any sentences in any order are those that the tokenizer returns for the sentences
    joined by spaces."""
    try:
        Story.parse(sentences)
        story = tokens_of(kind, 10**6).tokenize(sentences)
    except StoryError:
        assume(False)
    order = tuple(data.draw(st.permutations(range(len(sentences)))))
    order = order[: data.draw(st.integers(1, len(order)))]
    (chunk,) = story.chunks(order, None)
    text = " ".join(story.texts[i] for i in order)
    assert chunk.ids.tolist() == tokenizer_of(kind)(text)["input_ids"]
    assert chunk.pooled.all()


@pytest.mark.parametrize("kind", [*FAMILIES, *DECODERS])
@given(sentences=stories(), prompt=st.sampled_from(["", "query: "]))
@settings(max_examples=10)
def test_ids_of_plain_sentences_are_concatenated(kind, sentences, prompt):
    assert small(kind, prompt=prompt).tokenizer.tokenize(sentences).concatenates


def test_a_context_without_room_for_text_is_refused():
    with pytest.raises(ValueError, match="context_tokens=2 leaves no room .* 2 special tokens"):
        tokens_of("roberta", 2)


def test_line_breaks_inside_a_sentence_are_spaces():
    texts = ("She left\n   the house.", "She left the house.")
    wrapped, plain = (tokens_of("modernbert").tokenize([text]).first[0] for text in texts)
    assert wrapped.tolist() == plain.tolist()


@given(stories(2, 30), st.integers(12, 120), st.sampled_from(["bert", "roberta"]), st.data())
def test_context_contains_the_window_and_as_many_sentences_as_fit(sentences, context, kind, data):
    lo = data.draw(st.integers(0, len(sentences) - 1))
    hi = data.draw(st.integers(lo + 1, len(sentences)))
    tokens = StoryTokenizer(tokens_of(kind).tokenizer, context)
    story = tokens.tokenize(sentences)
    window = story.window((lo, hi))
    lengths = [len(ids) for ids in story.later]
    slack = max(0, *(len(a) - len(b) for a, b in zip(story.first, story.later, strict=True)))
    room = max(1, tokens.max_text_tokens - slack)

    assert 0 <= window.start <= lo < hi <= window.stop <= len(sentences)
    read = sum(lengths[window.start : window.stop])
    if sum(lengths[lo:hi]) > room:
        assert (window.start, window.stop) == (lo, hi)
    else:
        assert read <= room
        # No other sentence fits on either side; a side has more than half only if the other side
        # does not need it.
        assert window.start == 0 or read + lengths[window.start - 1] > room
        assert window.stop == len(sentences) or read + lengths[window.stop] > room
        before, after = sum(lengths[window.start : lo]), sum(lengths[hi : window.stop])
        spare = room - sum(lengths[lo:hi])
        if before > spare / 2:
            assert window.stop == len(sentences) or after + lengths[window.stop] > spare / 2
    assert story.cut_tokens(window) == sum(lengths) - min(read, room)
    assert (story.cut_tokens(window) == 0) == (sum(lengths) <= room)


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
@given(stories(1, 12), st.integers(12, 40), st.sampled_from(["", "query: "]))
def test_long_texts_are_split_into_chunks_each_after_the_prompt(kind, sentences, context, prompt):
    settings = CheckpointSettings(prompt=prompt)
    tokens = StoryTokenizer(tokenizer_of(kind), context, settings)
    story, order = tokens.tokenize(sentences), tuple(range(len(sentences)))
    chunks, before = story.chunks(order, None), [*tokens.head, *tokens.prompt_ids]
    assert all(len(chunk.ids) <= context for chunk in chunks)
    assert all(chunk.ids[: len(before)].tolist() == before for chunk in chunks)
    ids = [chunk.ids[len(before) : len(chunk.ids) - len(tokens.tail)] for chunk in chunks]
    whole = tokens.tokenizer(prompt + " ".join(story.texts))["input_ids"]
    assert [*before, *np.concatenate(ids), *tokens.tail] == whole
    # The chunks of a window contain each of its tokens once, and every chunk contains at least one.
    last = story.chunks(order, (len(sentences) - 1, len(sentences)))
    rows = story.later if len(order) > 1 else story.first
    assert sum(chunk.pooled.sum() for chunk in last) == len(rows[-1])
    assert all(chunk.pooled.any() for chunk in last)


def test_nothing_to_pool_is_an_error():
    story = tokens_of("bert").tokenize(["She left.", "He stayed."])
    with pytest.raises(StoryError, match="nothing to pool"):
        story.chunks((0,), (1, 2))


def bpe(vocabulary: list[str], merges: list[tuple[str, str]]) -> StoryTokenizer:
    ids = {token: number for number, token in enumerate(vocabulary)}
    backend = Tokenizer(models.BPE(vocab=ids, merges=merges))
    return StoryTokenizer(PreTrainedTokenizerFast(tokenizer_object=backend), 512)


def test_token_across_sentences_that_are_not_neighbors_in_the_story():
    """Sentences 0 and 2 are neighbors neither in the story nor in its reverse, but they are if 1 is
    left out."""
    letters = sorted(set("Nadiran.Itre!Thmlbu? "))
    tokens = bpe([*letters, " T", ". T"], [(" ", "T"), (".", " T")])
    texts = ["Nadia ran.", "It rained!", "The mill burned?"]
    story = tokens.tokenize(texts)
    for order in [(0, 2), (0, 2, 1), (1, 0, 2)]:
        (chunk,) = story.chunks(order, None)
        text = " ".join(texts[i] for i in order)
        assert chunk.ids.tolist() == tokens.tokenizer(text)["input_ids"]


def test_sentence_whose_token_merges_with_the_anchor():
    tokens = bpe(["a", " ", "T", "x", ".", " T", "a T"], [(" ", "T"), ("a", " T")])
    story = tokens.tokenize(["T", "x."])
    assert story.chunks((1, 0), None)[0].ids.tolist() == [3, 4, 5]


@given(sentences=stories(2, 12), context=st.integers(30, 80), data=st.data())
def test_context_of_a_window_fits_one_chunk(sentences, context, data):
    """Also with a tokenizer for which the number of tokens is known only after tokenizing the
    joined text."""
    kind = data.draw(st.sampled_from(["superwords", "roberta", "bert"]))
    story = StoryTokenizer(tokens_of(kind).tokenizer, context).tokenize(sentences)
    lo = data.draw(st.integers(0, len(sentences) - 1))
    window = story.window((lo, lo + 1))
    others = [i for i in window.base if i != lo]
    index = data.draw(st.integers(0, len(others)))
    order = (*others[:index], lo, *others[index:])
    if window.start < lo or lo + 1 < window.stop or story.cut_tokens(window) == 0:
        assert len(story.chunks(order, None)) == 1


def test_a_window_is_read_with_as_much_on_both_sides():
    sentences = ["Nadia ran."] * 9
    size = len(tokens_of("bert").tokenize(sentences).later[1])
    story = StoryTokenizer(tokens_of("bert").tokenizer, 5 * size + 2).tokenize(sentences)
    read = {span: story.window(span)[::3] for span in [(0, 1), (1, 2), (4, 5), (3, 6), (8, 9)]}
    assert list(read.values()) == [(0, 5), (0, 5), (2, 7), (2, 7), (4, 9)]


@pytest.mark.parametrize("kind", FAMILIES)
def test_long_stories_are_tokenized_in_pieces(kind, monkeypatch):
    """With the ids of the whole, if pieces end at spaces; no call of the tokenizer has more."""
    sentences = [f"On day {day} Nadia walked on to the river." for day in range(20)]
    sentences[7] = " ".join(sentences)
    expected = tokens_of(kind).tokenize(sentences)
    monkeypatch.setattr(tokenizer, "PIECE", 120)
    tokens, sizes = StoryTokenizer(tokenizer_of(kind), 512), []
    ids = StoryTokenizer.ids

    def counted(self, texts, *args):
        sizes.append(max(map(len, texts)))
        return ids(self, texts, *args)

    monkeypatch.setattr(StoryTokenizer, "ids", counted)
    found = tokens.tokenize(sentences)
    assert max(sizes) <= 120 + len(sentences) and found.concatenates == expected.concatenates
    for row, other in zip(found.first + found.later, expected.first + expected.later, strict=True):
        assert row.tolist() == other.tolist()


def test_all_neighbors_are_in_one_range(monkeypatch):
    monkeypatch.setattr(tokenizer, "PIECE", 10)
    texts = ["a" * length for length in (3, 3, 3, 3, 20, 4, 4, 9, 1)]
    ranges = list(tokenizer._ranges(texts))
    assert sorted({i for lo, hi in ranges for i in range(lo, hi)}) == list(range(9))
    assert all(hi - lo == 1 or sum(map(len, texts[lo:hi])) <= 10 for lo, hi in ranges)
    small = [(i, i + 1) for i in range(8) if len(texts[i] + texts[i + 1]) < 10]
    assert all(any(lo <= i and j < hi for lo, hi in ranges) for i, j in small)

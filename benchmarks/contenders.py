"""Ways to score stories, or to do what comes nearest, for `speed.py` to time: this package's, the obvious loop, the
least a model can take, and what people use instead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from narrative_twins import Story, StoryEncoder, score_stories

Run = Callable[[], Any]


def engine(encoder: StoryEncoder, stories: Sequence[Story], **options: Any) -> Run:
    """This package."""
    return lambda: list(score_stories(stories, encoder, on_truncation="ignore", **options))


def outside_the_model(encoder: StoryEncoder, run: Run) -> float:
    """The share of a run's time that is not spent in the model's forward passes."""
    inside: list[float] = []
    begin = encoder.model.register_forward_pre_hook(lambda *inputs: inside.append(-time.perf_counter()))
    end = encoder.model.register_forward_hook(lambda *outputs: inside.append(time.perf_counter()))
    start = time.perf_counter()
    try:
        run()
        if encoder.device.type == "cuda":
            torch.cuda.synchronize()
        return 1 - sum(inside) / (time.perf_counter() - start)
    finally:
        begin.remove()
        end.remove()


def unique_rows(encoder: StoryEncoder, stories: Sequence[Story], **options: Any) -> list[np.ndarray]:
    """The texts, in token ids, that go through the model to score stories."""
    seen: list[np.ndarray] = []
    states = encoder.passes.states
    encoder.passes.states = lambda rows: seen.extend(rows) or states(rows)  # type: ignore[method-assign]
    try:
        engine(encoder, stories, **options)()
    finally:
        encoder.passes.states = states  # type: ignore[method-assign]
    return seen


def naive(model: Any, tokenizer: Any, stories: Sequence[Story], encoder: StoryEncoder) -> Run:
    """One story, one operation, one call of the model at a time, as code that follows the formulas does it. Where a
    story does not fit the context, it reads the part of it round a window that the package reads."""

    @torch.no_grad()
    def embed(sentences: list[str], pooled: tuple[int, int] | None) -> torch.Tensor:
        """The mean of the tokens of a text, or of those of the sentences in a range."""
        inputs = tokenizer(" ".join(sentences), return_tensors="pt", return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0]
        states = model(**inputs.to(model.device)).last_hidden_state[0]
        if pooled is None:
            return states.mean(dim=0)
        start = len(" ".join([*sentences[: pooled[0]], ""]))
        stop = len(" ".join(sentences[: pooled[1]]))
        own = (offsets[:, 1] > start) & (offsets[:, 1] <= stop) & (offsets[:, 1] > offsets[:, 0])
        return states[own.to(states.device)].mean(dim=0)

    def sim(a: torch.Tensor, b: torch.Tensor) -> float:
        return float(F.cosine_similarity(a.float(), b.float(), dim=0))

    def window_of(told: list[str], lo: int, hi: int, whole: bool) -> None:
        """All four operations on the sentences `[lo, hi)` of a text."""

        def vector(sentences: list[str], size: int, at: int = lo) -> torch.Tensor:
            return embed(sentences, None if whole else (at, at + size))

        count = hi - lo
        base = vector(told, count)
        [1 - sim(base, vector(told[:i] + told[i + 1 :], count - 1)) for i in range(lo, hi) if count > 1]
        base = vector(told, count)
        for i in range(lo, hi):
            others = told[:i] + told[i + 1 :]
            [sim(base, vector([*others[:p], told[i], *others[p:]], count)) for p in range(lo, hi) if p != i]
        before = vector(told[: lo + 1], 1)
        for i in range(lo + 1, hi):
            upto = vector(told[: i + 1], i + 1 - lo)
            sim(upto, before)
            before = upto
        base = vector(told, count)
        [sim(base, vector([told[i]], 1, at=0)) for i in range(lo, hi)]

    def run() -> None:
        for story in stories:
            tokens = encoder.tokenize(story.sentences)
            for span in story.windows:
                view = tokens.window(span)
                told = list(story.sentences[view.start : view.stop])
                window_of(told, view.lo - view.start, view.hi - view.start, len(story.windows) == 1)

    return run


def floor(encoder: StoryEncoder, rows: Sequence[np.ndarray], products: bool) -> Run:
    """A bare forward pass over as many tokens, in texts of their mean length, all equal: no padding, no odd lengths,
    nothing else. With the package's matrix products, or with those of plain torch."""
    total = sum(map(len, rows))
    length = round(total / len(rows))
    size = max(1, encoder.passes.batch_tokens // length)
    ids = torch.from_numpy(np.resize(np.concatenate(rows), (max(1, round(total / length)), length)).astype(np.int64))
    ids = ids.to(encoder.device)

    @torch.inference_mode()
    def run() -> None:
        with encoder.passes._products if products else nullcontext():
            for batch in ids.split(size):
                encoder.model(input_ids=batch)
        if encoder.device.type == "cuda":
            torch.cuda.synchronize()

    return run


def sentence_transformer(name: str, device: str, texts: Sequence[str]) -> Run:
    """The same texts by `SentenceTransformer.encode`, as it comes."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(name, device=device)
    return lambda: model.encode(list(texts), batch_size=32)


class _Sentences:
    """What sumy asks of a tokenizer, for sentences that are known."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences = tuple(sentences)

    def to_sentences(self, _: str) -> tuple[str, ...]:
        return self.sentences

    def to_words(self, sentence: str) -> tuple[str, ...]:
        return tuple(word.strip(".,;:!?'\"").lower() for word in sentence.split())


def textrank(stories: Sequence[Story]) -> Run:
    """TextRank of sumy: salience by shared words, without a model."""
    from sumy.parsers.plaintext import PlaintextParser
    from sumy.summarizers.text_rank import TextRankSummarizer

    def run() -> None:
        for story in stories:
            document = PlaintextParser.from_string(" ".join(story.sentences), _Sentences(story.sentences)).document
            TextRankSummarizer().rate_sentences(document)

    return run


def texts_of(rows: Iterable[np.ndarray], tokenizer: Any) -> Iterator[str]:
    """Token ids as text again."""
    for row in rows:
        yield tokenizer.decode(row, skip_special_tokens=True)

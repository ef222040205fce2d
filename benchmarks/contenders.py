"""Ways to score stories that `speed.py` times: this package, a naive loop, the lower bound of bare forward passes, and
alternatives that do nearly the same."""

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
    """The token ids of all texts that the model encodes to score stories."""
    seen: list[np.ndarray] = []
    states = encoder.passes.states
    encoder.passes.states = lambda rows: seen.extend(rows) or states(rows)  # type: ignore[method-assign]
    try:
        engine(encoder, stories, **options)()
    finally:
        encoder.passes.states = states  # type: ignore[method-assign]
    return seen


def naive(model: Any, tokenizer: Any, stories: Sequence[Story], encoder: StoryEncoder) -> Run:
    """Scoring by one model call for each text, as the formulas define the operations. For stories that exceed the
    context, it reads the same text around each window as the package does."""

    @torch.no_grad()
    def embed(sentences: list[str], pooled: tuple[int, int] | None) -> torch.Tensor:
        """The mean of the token states of a text, or of the sentences in the half-open range `pooled`."""
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

    def score_window(text: list[str], lo: int, hi: int, single_window: bool) -> None:
        """All four operations on the sentences `[lo, hi)` of a text."""

        def vector(sentences: list[str], size: int, start: int = lo) -> torch.Tensor:
            return embed(sentences, None if single_window else (start, start + size))

        count = hi - lo
        base = vector(text, count)  # deletion
        [1 - sim(base, vector(text[:i] + text[i + 1 :], count - 1)) for i in range(lo, hi) if count > 1]
        base = vector(text, count)  # shifting
        for i in range(lo, hi):
            others = text[:i] + text[i + 1 :]
            [sim(base, vector([*others[:p], text[i], *others[p:]], count)) for p in range(lo, hi) if p != i]
        before = vector(text[: lo + 1], 1)  # disruption
        for i in range(lo + 1, hi):
            after = vector(text[: i + 1], i + 1 - lo)
            sim(after, before)
            before = after
        base = vector(text, count)  # summarization
        [sim(base, vector([text[i]], 1, start=0)) for i in range(lo, hi)]

    def run() -> None:
        for story in stories:
            tokens = encoder.tokenize(story.sentences)
            for span in story.windows:
                window = tokens.window(span)
                text = list(story.sentences[window.start : window.stop])
                score_window(text, window.lo - window.start, window.hi - window.start, len(story.windows) == 1)

    return run


def floor(encoder: StoryEncoder, rows: Sequence[np.ndarray], products: bool) -> Run:
    """Forward passes only, over the same number of tokens in texts of equal length (the mean), without padding; with
    the package's matrix products or with those of torch."""
    total = sum(map(len, rows))
    length = round(total / len(rows))
    size = max(1, encoder.passes.batch_tokens // length)
    ids = torch.from_numpy(np.resize(np.concatenate(rows), (max(1, round(total / length)), length)).astype(np.int64))
    ids = ids.to(encoder.device)

    @torch.inference_mode()
    def run() -> None:
        with encoder.passes.products if products else nullcontext():
            for batch in ids.split(size):
                encoder.model(input_ids=batch)
        if encoder.device.type == "cuda":
            torch.cuda.synchronize()

    return run


def sentence_transformer(name: str, device: str, texts: Sequence[str]) -> Run:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(name, device=device)
    return lambda: model.encode(list(texts), batch_size=32)


class _Sentences:
    """A tokenizer for sumy with given sentences."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences = tuple(sentences)

    def to_sentences(self, _: str) -> tuple[str, ...]:
        return self.sentences

    def to_words(self, sentence: str) -> tuple[str, ...]:
        return tuple(word.strip(".,;:!?'\"").lower() for word in sentence.split())


def textrank(stories: Sequence[Story]) -> Run:
    """TextRank of sumy: salience from shared words, without a model."""
    from sumy.parsers.plaintext import PlaintextParser
    from sumy.summarizers.text_rank import TextRankSummarizer

    def run() -> None:
        for story in stories:
            document = PlaintextParser.from_string(" ".join(story.sentences), _Sentences(story.sentences)).document
            TextRankSummarizer().rate_sentences(document)

    return run


def texts_of(rows: Iterable[np.ndarray], tokenizer: Any) -> Iterator[str]:
    for row in rows:
        yield tokenizer.decode(row, skip_special_tokens=True)

"""Ways to score stories that `speed.py` times: this package, a reference loop, the lower bound of
bare forward passes, and alternatives that do nearly the same."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from narrative_twins import OPERATIONS, Story, StoryEncoder, Window, score_stories

Run = Callable[[], Any]

REFERENCE_BATCH = 64
"""Texts in a batch of the reference loop, at most."""


def engine(encoder: StoryEncoder, stories: Sequence[Story], **options: Any) -> Run:
    return lambda: list(score_stories(stories, encoder, on_truncation="ignore", **options))


def unique_rows(
    encoder: StoryEncoder, stories: Sequence[Story], **options: Any
) -> list[np.ndarray]:
    """The token ids of all texts that the model encodes to score stories."""
    seen: list[np.ndarray] = []
    states = encoder.passes.states
    encoder.passes.states = lambda rows: seen.extend(rows) or states(rows)  # type: ignore[method-assign]
    try:
        engine(encoder, stories, **options)()
    finally:
        encoder.passes.states = states  # type: ignore[method-assign]
    return seen


def reference(encoder: StoryEncoder, stories: Sequence[Story]) -> Run:
    """Scoring as the operations are defined, story by story: the texts of each operation in padded
    batches, in float32 on a CPU, equal ones as often as they occur. For stories that exceed the
    context, it reads the same text around each window as the package does."""
    model: Any = encoder.model
    tokenizer: Any = encoder.tokenizer.tokenizer

    @torch.no_grad()
    def embed(story: Story, orders: Sequence[Sequence[int]], window: Window) -> np.ndarray:
        """For each order the mean of its token states, or of the states of the window's sentences
        if the story has several windows."""
        vectors = []
        for start in range(0, len(orders), REFERENCE_BATCH):
            batch = orders[start : start + REFERENCE_BATCH]
            texts = [[story.sentences[i] for i in order] for order in batch]
            joined = [" ".join(sentences) for sentences in texts]
            inputs = tokenizer(
                joined, padding=True, return_tensors="pt", return_offsets_mapping=True
            )
            offsets = inputs.pop("offset_mapping")
            mask = inputs["attention_mask"].bool()
            for row, (order, sentences) in enumerate(zip(batch, texts, strict=True)):
                if len(story.windows) > 1:
                    pooled = [at for at, i in enumerate(order) if window.lo <= i < window.hi]
                    first = len(" ".join([*sentences[: pooled[0]], ""]))
                    last = len(" ".join(sentences[: pooled[-1] + 1]))
                    begin, end = offsets[row, :, 0], offsets[row, :, 1]
                    mask[row] &= (end > first) & (end <= last) & (end > begin)
            states = model(**inputs.to(model.device)).last_hidden_state
            weights = mask.to(states.device).unsqueeze(2)
            vectors.append((states * weights).sum(1) / weights.sum(1))
        return torch.cat(vectors).float().cpu().numpy()

    def run() -> None:
        for story in stories:
            tokens = encoder.tokenize(story.sentences)
            for window in map(tokens.window, story.windows):
                for operation in OPERATIONS.values():
                    if orders := list(operation.orders(window)):
                        operation.scores(window, embed(story, orders, window))

    return run


def floor(encoder: StoryEncoder, rows: Sequence[np.ndarray], products: bool) -> Run:
    """Forward passes only, over the same number of tokens in texts of equal length (the mean),
    without padding; with the package's matrix products or with those of torch."""
    total = sum(map(len, rows))
    length = round(total / len(rows))
    size = max(1, encoder.passes.batch_tokens // length)
    ids = torch.from_numpy(
        np.resize(np.concatenate(rows), (max(1, round(total / length)), length)).astype(np.int64)
    )
    ids = ids.to(encoder.device)

    @torch.inference_mode()
    def run() -> None:
        with encoder.passes.products if products else nullcontext():
            for batch in ids.split(size):
                encoder.model(input_ids=batch)
        if encoder.device.type == "cuda":
            torch.cuda.synchronize()

    return run


def padded(encoder: StoryEncoder, stories: Sequence[Story], size: int = 64) -> Run:
    """Forward passes of torch over the token ids of stories, padded in batches of neighbors by
    length, with nothing before or after."""
    tokenizer = encoder.tokenizer.tokenizer
    rows = sorted(tokenizer([story.text for story in stories])["input_ids"], key=len)
    batches = [
        tokenizer.pad({"input_ids": rows[start : start + size]}, return_tensors="pt")
        for start in range(0, len(rows), size)
    ]

    @torch.inference_mode()
    def run() -> None:
        for batch in batches:
            encoder.model(**batch.to(encoder.device))

    return run


def corpus(encoder: StoryEncoder, stories: Sequence[Story], processes: int) -> Run:
    """A run over raw texts into shards of Parquet, as by `narrative-twins corpus`."""
    from narrative_twins.corpora import StoryScorer, score_corpus

    def run() -> None:
        texts, scorer = [story.text for story in stories], StoryScorer(encoder)
        with TemporaryDirectory() as folder:
            score_corpus([("", texts)], folder, scorer, rows=64, processes=processes)

    return run


def sentence_transformer(name: str, device: str, texts: Sequence[str]) -> Run:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(name, device=device)
    return lambda: model.encode(list(texts), batch_size=32)


class _Sentences:
    """A tokenizer for sumy with sentences that are split already."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences = tuple(sentences)

    def to_sentences(self, _: str) -> tuple[str, ...]:
        return self.sentences

    def to_words(self, sentence: str) -> tuple[str, ...]:
        return tuple(word.strip(".,;:!?'\"").lower() for word in sentence.split())


def textrank(stories: Sequence[Story]) -> Run:
    """TextRank of sumy: salience from shared words, without a model. The run returns the scores of
    each story."""
    from sumy.parsers.plaintext import PlaintextParser
    from sumy.summarizers.text_rank import TextRankSummarizer

    def run() -> list[list[float]]:
        scores = []
        for story in stories:
            document = PlaintextParser.from_string(
                " ".join(story.sentences), _Sentences(story.sentences)
            ).document
            ratings = TextRankSummarizer().rate_sentences(document)
            scores.append([ratings.get(sentence, 0.0) for sentence in document.sentences])
        return scores

    return run

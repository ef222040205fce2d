"""Estimates of how long an encoder takes to score a story or book on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.salience.plans import workload
from narrative_twins.stories.story import Story

MAX_UNCHECKED = 10.0
"""Seconds: before a longer estimate is given, the speed of the encoder is measured again."""
MAX_COUNTED_TOKENS = 100_000_000
"""A larger workload is not counted further, since counting takes time too."""

_SAMPLE = [
    f"On day {n} Nadia walked to house number {n * 7} by the river and found nobody there."
    for n in range(16)
]


class LoadedEncoder:
    """An encoder, and its speed in tokens per second, which is measured when it is made."""

    def __init__(self, encoder: StoryEncoder) -> None:
        self.encoder, self.speed = encoder, measured_speed(encoder)

    def seconds(
        self,
        stories: Sequence[Story],
        operations: Sequence[Operation] | None,
        patience: float,
        *,
        passes: int = 0,
        faster: str = "",
    ) -> float:
        """The estimated time to score stories. Raises `ValueError` with faster alternatives if it
        is above `patience`.

        Args:
            stories: a story, or the chapters of a book.
            operations: for exact scores; None for scores from one pass.
            patience: seconds.
            passes: how often the stories are read in addition.
            faster: what could be done apart from one pass, for the message.
        """
        tokenized = [self.encoder.tokenize(story.sentences) for story in stories]
        tokens = sum(text.count_tokens((0, len(text.texts))) for text in tokenized)
        # Windows fill at most half of the context, and are read with the text around them: at most
        # twice the story.
        work = one_pass = (2 + passes) * tokens
        if operations is not None:
            work = passes * tokens
            for story, text in zip(stories, tokenized, strict=True):
                if work <= MAX_COUNTED_TOKENS:
                    work += workload(operations, text, story.windows, MAX_COUNTED_TOKENS)
        if work > MAX_UNCHECKED * self.speed:
            # The machine may have been busy, or idle, when the speed was measured.
            self.speed = measured_speed(self.encoder, runs=1)
        limit = min(patience, MAX_COUNTED_TOKENS / self.speed)
        if work <= limit * self.speed:
            return work / self.speed
        advice = "use the command"
        if one_pass <= limit * self.speed:
            advice = f"{faster}choose one pass ({format_duration(one_pass / self.speed)})"
        raise ValueError(
            f"This takes more than {format_duration(limit)} to score on this machine; {advice}."
        )


def format_duration(seconds: float) -> str:
    """A time in words, rounded, such as `2 minutes`."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{round(seconds / size)} {unit}s"
        if seconds >= 0.9 * size:
            return f"1 {unit}"
    return f"{max(1, round(seconds))} second{'s' * (seconds >= 1.5)}"


def measured_speed(encoder: StoryEncoder, runs: int = 3) -> float:
    """The tokens per second of an encoder: the best of some runs, the first of which is a
    warm-up."""
    options: ScoringOptions = {"operations": "deletion", "windows": 1, "on_truncation": "ignore"}
    seconds = inf
    for _ in range(runs):
        began = time.perf_counter()
        list(score_stories([_SAMPLE], encoder, **options))
        seconds = min(seconds, time.perf_counter() - began)
    tokens, operations = encoder.tokenize(_SAMPLE), resolve_operations("deletion")
    return workload(operations, tokens, [(0, len(_SAMPLE))], MAX_COUNTED_TOKENS) / seconds

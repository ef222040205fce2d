"""Estimates of how long an encoder takes to score a story or book on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from typing import Any

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.books.scoring import BookScorer
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

    def seconds(self, story: Story, options: ScoringOptions, patience: float) -> float:
        """The estimated time of a story. Raises `ValueError` with faster alternatives if it is
        above `patience`.

        Args:
            story, patience: the story, and seconds.
            options: from `checked_options`.
        """
        operations: Any = options["operations"]
        approximate = options["approximate"] is not None

        def estimate() -> float:
            if approximate:
                return self._one_pass([story])
            return self._exact(operations, [story], patience)

        seconds = estimate()
        if seconds <= MAX_UNCHECKED:
            return seconds
        # The machine may have been busy, or idle, when the speed was measured.
        self.speed = measured_speed(self.encoder, 1)
        seconds = estimate()
        if approximate or seconds < inf:
            return seconds
        auto = Story.parse(list(story.sentences), "auto")
        others = [operation for operation in operations if operation.name != "shifting"]
        by_auto, one_pass = self._exact(operations, [auto], patience), self._one_pass([story])
        without = inf
        if 0 < len(others) < len(operations):
            without = self._exact(others, [story], patience)
        hints = []
        if by_auto < inf:
            hints.append(f"use more windows ('auto' takes {format_duration(by_auto)})")
        if without < inf:
            hints.append(f"leave out shifting ({format_duration(without)})")
        hints.append(
            f"choose one pass ({format_duration(one_pass)}, approximate, without shifting)"
        )
        longest = max(hi - lo for lo, hi in story.windows)
        raise ValueError(
            f"Windows of up to {longest:,} sentences take more than"
            f" {self._limit_in_words(patience)} to score exactly on this machine;"
            f" {', or '.join(hints)}."
        )

    def book_seconds(self, scorer: BookScorer, stories: Sequence[Story], patience: float) -> float:
        """The estimated time of a book, whose chapters are `stories`. Raises `ValueError` with
        faster alternatives if it is above `patience`."""
        self.speed = measured_speed(self.encoder, 1)
        one_pass = self._one_pass(stories)
        above = one_pass / 2 * any(level != "sentence" for level in scorer.levels)
        seconds = above
        if "sentence" in scorer.levels:
            is_exact = scorer.approximate is None
            operations = scorer.operations["sentence"]
            seconds += self._exact(operations, stories, patience) if is_exact else one_pass
        if seconds <= patience:
            return seconds
        hint = "use the command"
        if above + one_pass <= patience < seconds:
            hint = f"choose one pass ({format_duration(above + one_pass)})"
        raise ValueError(
            f"The book takes more than {self._limit_in_words(patience)} to score on this"
            f" machine; {hint}."
        )

    def _one_pass(self, stories: Sequence[Story]) -> float:
        """The estimated time of one pass: windows fill at most half of the context and are read
        with the text around them, twice the story or less."""
        tokens = [self.encoder.tokenize(story.sentences) for story in stories]
        counts = [
            text.count_tokens((0, len(story))) for text, story in zip(tokens, stories, strict=True)
        ]
        return 2 * sum(counts) / self.speed

    def _exact(
        self, operations: list[Operation], stories: Sequence[Story], patience: float
    ) -> float:
        """The estimated time of exact scores; infinite if it is above `patience`."""
        limit, work = self._limit(patience), 0
        for story in stories:
            tokens = self.encoder.tokenize(story.sentences)
            work += workload(operations, tokens, story.windows, limit)
            if work > limit:
                return inf
        return work / self.speed

    def _limit(self, patience: float) -> int:
        """The tokens that can be read in time, or that are counted."""
        return min(MAX_COUNTED_TOKENS, int(self.speed * patience))

    def _limit_in_words(self, patience: float) -> str:
        return format_duration(self._limit(patience) / self.speed)


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

"""Estimates of how long an encoder takes to score a story or book on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.books.scoring import BookScorer
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.options import Approximation
from narrative_twins.salience.plans import workload
from narrative_twins.stories.story import Story, Windows

MAX_UNCHECKED = (
    10.0  # seconds; before a longer estimate is given, the speed of the encoder is measured again
)
MAX_COUNTED_TOKENS = (
    100_000_000  # a larger workload is not counted further, since counting takes time too
)
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
        operations: list[Operation],
        story: Story,
        approximate: Approximation | None,
        patience: float,
    ) -> float:
        """The estimated time of a story. Raises `ValueError` with faster alternatives if it is
        above `patience`."""
        try:
            seconds = self._estimate(operations, story, approximate, patience)
        except ValueError:
            seconds = inf
        if seconds <= MAX_UNCHECKED:
            return seconds
        # The machine may have been busy, or idle, when the speed was measured.
        self.speed = measured_speed(self.encoder, 1)
        return self._estimate(operations, story, approximate, patience)

    def book_seconds(self, scorer: BookScorer, stories: Sequence[Story], patience: float) -> float:
        """The estimated time of a book, whose chapters are `stories`. Raises `ValueError` with
        faster alternatives if it is above `patience`."""
        self.speed = measured_speed(self.encoder, 1)
        texts = [self.encoder.tokenize(story.sentences) for story in stories]
        counts = [
            tokens.count_tokens((0, len(story)))
            for story, tokens in zip(stories, texts, strict=True)
        ]
        once = sum(counts) / self.speed
        above = once * any(level != "sentence" for level in scorer.levels)
        one_pass = above + 2 * once  # as in `_estimate`
        limit = min(MAX_COUNTED_TOKENS, int(self.speed * patience))
        seconds = one_pass if "sentence" in scorer.levels else above
        if "sentence" in scorer.levels and scorer.approximate is None:
            work = 0
            for story, tokens in zip(stories, texts, strict=True):
                work += workload(scorer.operations["sentence"], tokens, story.windows, limit)
                if work > limit:
                    break
            seconds = above + (inf if work > limit else work / self.speed)
        if seconds <= patience:
            return seconds
        hint = (
            f"choose one pass ({format_duration(one_pass)})"
            if one_pass <= patience < seconds
            else "use the command"
        )
        raise ValueError(
            f"The book takes more than {format_duration(limit / self.speed)} to score on this"
            f" machine; {hint}."
        )

    def _estimate(
        self,
        operations: list[Operation],
        story: Story,
        approximate: Approximation | None,
        patience: float,
    ) -> float:
        tokens = self.encoder.tokenize(story.sentences)
        # Windows fill at most half of the context and are read with the text around them: twice the
        # story, or less.
        one_pass = 2 * tokens.count_tokens((0, len(story))) / self.speed
        if approximate is not None:
            return one_pass
        limit = min(MAX_COUNTED_TOKENS, int(self.speed * patience))

        def seconds(chosen: list[Operation], windows: Windows | None = None) -> float:
            spans = (
                story.windows
                if windows is None
                else Story.parse(list(story.sentences), windows).windows
            )
            work = workload(chosen, tokens, spans, limit)
            return inf if work > limit else work / self.speed

        exact = seconds(operations)
        if exact < inf:
            return exact
        others = [operation for operation in operations if operation.name != "shifting"]
        hints = []
        if (auto := seconds(operations, "auto")) < inf:
            hints.append(f"use more windows ('auto' takes {format_duration(auto)})")
        if 0 < len(others) < len(operations) and (without := seconds(others)) < inf:
            hints.append(f"leave out shifting ({format_duration(without)})")
        hints.append(
            f"choose one pass ({format_duration(one_pass)}, approximate, without shifting)"
        )
        longest = max(hi - lo for lo, hi in story.windows)
        raise ValueError(
            f"Windows of up to {longest:,} sentences take more than"
            f" {format_duration(limit / self.speed)} to score exactly on this machine;"
            f" {', or '.join(hints)}."
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
    seconds = inf
    for _ in range(runs):
        began = time.perf_counter()
        list(
            score_stories(
                [_SAMPLE], encoder, operations="deletion", windows=1, on_truncation="ignore"
            )
        )
        seconds = min(seconds, time.perf_counter() - began)
    tokens, operations = encoder.tokenize(_SAMPLE), resolve_operations("deletion")
    return workload(operations, tokens, [(0, len(_SAMPLE))], MAX_COUNTED_TOKENS) / seconds

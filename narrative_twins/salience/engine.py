"""The engine: scores the sentences of many stories in bounded memory by few forward passes.

`Engine.outcomes` holds some stories at once, plans their windows, embeds the variants of many
windows together, scores the windows, and yields the stories in order. Each of several processes
runs it on a part of the stories.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from operator import length_hint
from pathlib import Path
from typing import Any, TypeAlias

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.encoder.tokenizer import TokenizedStory
from narrative_twins.salience.multiprocess import in_processes
from narrative_twins.salience.operations import EXACTLY
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.salience.plans import Plan, planner
from narrative_twins.salience.progress import Progress
from narrative_twins.salience.result import StorySalience
from narrative_twins.salience.wording import other_language, single_sentences, truncation
from narrative_twins.stories.sentences import Span
from narrative_twins.stories.story import Story, StoryError, check_stories

logger = logging.getLogger(__name__)

Outcome: TypeAlias = StorySalience | StoryError
"""The result of a story, or the error because of which it has none."""

BUFFER_TOKENS = 1_000_000
"""The encoder runs when this many tokens are planned, which bounds memory for long stories."""
TOGETHER = 10_000
"""Stories of a batch are tokenized together up to this many characters."""
CHECKED = 100
"""The language of so many stories is looked at, the first ones; of millions it would take long."""


def score_stories(
    stories: Iterable[Any],
    encoder: StoryEncoder | str | Path | None = None,
    options: ScoringOptions | None = None,
    **fields: Any,
) -> Iterator[StorySalience]:
    """Score every sentence of some stories. Returns an iterator over one result per story, which
    scores lazily and in order.

    Args:
        stories: in any form that `Story.parse` accepts: text, list of sentences, mapping, `Story`.
        encoder: a `StoryEncoder`, its folder or Hub id, or None for the default encoder.
        options: the options of scoring; None for the defaults of `ScoringOptions`.
        fields: fields of `ScoringOptions` that differ from `options`, such as `operations`.

    Raises:
        TypeError, ValueError: an option is unknown or invalid. Raised before anything is scored.
        StoryError: a story can't be scored; has its index. Raised while iterating.

    Example:
        ```python
        from narrative_twins import score_stories

        (result,) = score_stories(["Nadia ran. The mill burned down. It rained."])
        assert len(result.top(2)) == 2
        ```
    """
    checked = ScoringOptions.of_call(options, fields)
    encoder = loaded_encoder(encoder)
    results = handled(outcomes(stories, encoder, checked), encoder, checked)
    return (result for result in results if result is not None)


def outcomes(
    stories: Iterable[Any], encoder: StoryEncoder, options: ScoringOptions
) -> Generator[Outcome, None, None]:
    """Score stories as `score_stories` does, and return an iterator over the outcome of each: its
    result, or the error because of which it has none. Both have the index of the story. With
    `on_error="raise"` an error is yielded at once, otherwise when its batch is complete. The first
    truncated story is logged if `on_truncation` is `"warn"`."""
    check_one_pass(encoder, options)
    if not isinstance(stories, list):
        check_stories(stories)
    engine, expected, progress = Engine(encoder, options), length_hint(stories), None
    if options.progress is not False:
        progress = Progress(options.progress, "stories", expected)
    parsed = map(partial(_parsed, options=options), stories)
    if options.processes == 1 or expected == 1:
        engine.on_progress = progress.reach if progress else None
        return _reported(engine.outcomes(parsed), options, progress)
    # Functions of the caller stay here: they may not be importable by other processes.
    engine.options = replace(options, on_error="skip", progress=False, splitter=None)
    size = options.batch_size
    if expected:  # few stories are shared evenly
        size = min(size, -(-expected // options.processes))
    batches = iter(lambda: list(islice(parsed, size)), [])
    scored = _chained(in_processes(engine.start, batches, options.processes), progress)
    return _reported(scored, options, progress)


def _parsed(source: Any, options: ScoringOptions) -> Outcome:
    """Return a result with scores of 0 for a story, or the error if it can't be parsed."""
    try:
        story = Story.parse(source, options.windows, options.splitter)
    except StoryError as error:
        return error
    return StorySalience.unscored(story, options)


def _chained(
    batches: Generator[list[Outcome], None, None], progress: Progress | None
) -> Generator[Outcome, None, None]:
    """Yield the outcomes of each list in `batches` one by one, and count them as progress."""
    with closing(batches):
        for scored in batches:
            if progress is not None:
                progress.add(len(scored))
            yield from scored


def _reported(
    scored: Generator[Outcome, None, None], options: ScoringOptions, progress: Progress | None
) -> Generator[Outcome, None, None]:
    """Yield outcomes with their index in the input, and log the first truncated story, if the
    option `on_truncation` is `"warn"`."""
    warns = options.on_truncation == "warn"
    with closing(progress) if progress else nullcontext(), closing(scored):
        for index, outcome in enumerate(scored):
            if isinstance(outcome, StoryError):
                outcome.index = index
            else:
                outcome = replace(outcome, index=index, row=index)
                if outcome.truncated and warns:
                    warns = False
                    logger.warning("%s", _truncation_warning(outcome))
            yield outcome


def handled(
    outcomes: Generator[Outcome, None, None], encoder: StoryEncoder, options: ScoringOptions
) -> Iterator[StorySalience | None]:
    """Yield the results among the outcomes, and None for a story that is skipped. Errors are
    raised, logged or passed to a function, as the option `on_error` says. Warnings are logged: of
    the first text that is not in the language of the encoder, unless the option `on_truncation` is
    `"ignore"`; and at the end if most stories are single sentences."""
    counts = Counter[bool]()
    tells = encoder.is_english and options.on_truncation != "ignore"
    with closing(outcomes):
        for outcome in outcomes:
            if isinstance(outcome, StorySalience):
                counts[len(outcome.sentences) == 1] += 1
                tells = tells and counts.total() <= CHECKED
                if tells and (note := other_language(outcome.sentences)):
                    tells = False
                    name = "" if outcome.story.id is None else f" ({outcome.story.id})"
                    logger.warning(
                        "the text of story %d%s %s (reported once)", outcome.index + 1, name, note
                    )
                yield outcome
                continue
            if options.on_error == "raise":
                raise outcome
            if callable(options.on_error):
                options.on_error(outcome)
            else:
                logger.warning("skipped %s", outcome)
            yield None
    if note := single_sentences(counts[True], counts.total()):
        logger.warning("%s", note)


def loaded_encoder(encoder: StoryEncoder | str | Path | None) -> StoryEncoder:
    """Return `encoder` if it is a `StoryEncoder`; otherwise load it from the folder or Hub id, or
    for None the default encoder. Raises TypeError for anything else."""
    if isinstance(encoder, StoryEncoder):
        return encoder
    if not isinstance(encoder, (str, Path, type(None))):
        raise TypeError(
            "an encoder is a StoryEncoder, a folder or a Hub id, not"
            f" {type(encoder).__name__}; for a SentenceTransformer use"
            " StoryEncoder.from_sentence_transformer(model)"
        )
    return StoryEncoder.from_pretrained(encoder)


def check_one_pass(encoder: StoryEncoder, options: ScoringOptions) -> None:
    """Raise a ValueError if options ask for one pass, but the encoder does not pool the mean."""
    if options.one_pass and encoder.pooling != "mean":
        raise ValueError(f"approximate={options.approximate!r} needs mean pooling; {EXACTLY}")


@dataclass
class Engine:
    """Plans windows, embeds the variants of many windows together, then scores the windows.

    Attributes:
        encoder, options: what to score with.
        plan_windows: yields the plans of the windows of a story, see `planner`.
        on_progress: called with `done` whenever it grows; None for no calls.
        buffer: the outcomes of stories that are not yielded yet, in order. The scores of a result
            are 0 until its windows are scored.
        plans: the planned windows to score, each with the index of its story in the buffer.
        planned: the number of tokens of all `plans`.
        finished: how many stories have left the buffer.
        done: how many stories are done, with fractions for stories of which some windows are
            scored.
    """

    encoder: StoryEncoder
    options: ScoringOptions
    plan_windows: Callable[[TokenizedStory, Sequence[Span]], Iterator[Plan]] = field(init=False)
    on_progress: Callable[[float], None] | None = None
    buffer: list[Outcome] = field(default_factory=list)
    plans: list[tuple[int, Plan]] = field(default_factory=list)
    planned: int = 0
    finished: int = 0
    done: float = 0.0

    def __post_init__(self) -> None:
        self.plan_windows = planner(self.options.operations, self.options.one_pass)

    def outcomes(self, stories: Iterable[Outcome]) -> Generator[Outcome, None, None]:
        """Yield the outcome of each story, in order. The `stories` are results whose scores are 0,
        or errors of stories that could not be parsed. With `on_error="raise"`, an error is yielded
        at once, after the stories before it."""
        stops = self.options.on_error == "raise"
        for outcome, tokens in self._tokenized(stories):
            self.buffer.append(outcome)
            if isinstance(outcome, StorySalience):
                self._plan(outcome, tokens)
            is_full = len(self.buffer) >= self.options.batch_size or self.planned >= BUFFER_TOKENS
            if is_full or (stops and isinstance(self.buffer[-1], StoryError)):
                yield from self._flush()
        yield from self._flush()

    def _tokenized(
        self, stories: Iterable[Outcome]
    ) -> Iterator[tuple[Outcome, TokenizedStory | StoryError]]:
        """Yield each outcome with the tokens of its story, or with the error because of which the
        story has no tokens. Several stories are read and tokenized together."""
        group: list[StorySalience] = []
        tokenize = self.encoder.tokenizer.tokenize_all
        for outcome in chain(stories, [None]):
            if isinstance(outcome, StorySalience):
                group.append(outcome)
                characters = sum(len(result.story.text) for result in group)
                if characters < TOGETHER and len(group) < self.options.batch_size:
                    continue
            yield from zip(group, tokenize([each.sentences for each in group]), strict=True)
            group = []
            if isinstance(outcome, StoryError):
                yield outcome, outcome

    def _plan(self, result: StorySalience, tokens: TokenizedStory | StoryError) -> None:
        """Plan the windows of `result`, the last story of the buffer. If the story can't be
        tokenized or planned, its error takes the place of `result` in the buffer. All planned
        windows are scored whenever their tokens reach `BUFFER_TOKENS`."""
        at = len(self.buffer) - 1
        try:
            if isinstance(tokens, StoryError):
                raise tokens
            for plan in self.plan_windows(tokens, result.windows):
                if plan.cut_tokens > result.cut_tokens:
                    result = self.buffer[at] = replace(result, cut_tokens=plan.cut_tokens)
                    if self.options.on_truncation == "error":
                        why = _too_long(self.encoder.context_tokens, plan.cut_tokens)
                        raise StoryError(f"the story {why}")
                self.plans.append((at, plan))
                self.planned += plan.tokens
                self._advance(0.0)  # so that a function can stop the planning of a long story
                if self.planned >= BUFFER_TOKENS:
                    self._score()
                    if isinstance(self.buffer[at], StoryError):
                        break
        except StoryError as error:
            self.buffer[at] = error

    def _score(self) -> None:
        """Embed all planned variants, set the scores in the results, and drop the plans."""
        # Progress in stories: a window counts as its share of the story's sentences.
        results = [self.buffer[at] for at, _ in self.plans]
        stories = sum(
            plan.window.size / len(result.sentences)
            for result, (_, plan) in zip(results, self.plans, strict=True)
            if isinstance(result, StorySalience)
        )
        variants = [variant for _, plan in self.plans for variant in plan.variants]
        vectors = self.encoder.encode(variants, lambda share: self._advance(share * stories))
        start = 0
        for result, (at, plan) in zip(results, self.plans, strict=True):
            stop = start + len(plan.variants)
            try:
                for name, scores in plan.scores(vectors[start:stop]):
                    if isinstance(result, StorySalience):
                        result.scores[name][plan.window.lo : plan.window.hi] = scores.tolist()
            except StoryError as error:
                self.buffer[at] = error
            start = stop
        self.plans, self.planned = [], 0

    def _advance(self, stories: float) -> None:
        """Add a number of stories, perhaps a fraction, to `done`, and call `on_progress`."""
        self.done += stories
        if self.on_progress is not None:
            self.on_progress(self.done)

    def _flush(self) -> Iterator[Outcome]:
        """Score the planned windows, then yield the outcomes of the buffer and empty it."""
        if self.plans:
            self._score()
        buffer, self.buffer = self.buffer, []
        # Stories with errors count as done too.
        self.finished += len(buffer)
        self._advance(self.finished - self.done)
        # From the encoder of this process, as it may be on another device.
        context, dtype = self.encoder.context_tokens, self.encoder.dtype_name
        for outcome in buffer:
            if isinstance(outcome, StorySalience):
                outcome = replace(outcome, context_tokens=context, dtype=dtype)
            yield outcome

    def start(self, number: int) -> Callable[[list[Outcome]], list[Outcome]]:
        """Return the function that scores a list of stories, for a new process with this number.
        The encoder of the process is moved to the accelerator `number`, if there are several."""
        self.encoder = self.encoder.on_accelerator(number)
        return lambda stories: list(self.outcomes(stories))


def _truncation_warning(result: StorySalience) -> str:
    """Return what to log of the first truncated story."""
    name = "" if result.story.id is None else f" ({result.story.id})"
    problem = _too_long(result.context_tokens, result.cut_tokens)
    problem += f"; it {result.unsplit}" if result.unsplit else ""
    return f"story {result.index + 1}{name} {problem} (reported once)"


def _too_long(context_tokens: int | None, cut_tokens: int) -> str:
    """Return how a story was truncated and the cure, as `is longer than the 512 tokens ...`."""
    problem = truncation(context_tokens, cut_tokens)
    return f"{problem}; an encoder that reads more at once sees more of it"

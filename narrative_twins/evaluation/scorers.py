"""What is compared: encoders, baselines and results from files, with scores that are saved and not
computed again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from narrative_twins.baselines.scorers import BASELINES, EmbeddingBaseline, baseline_scores
from narrative_twins.encoder.loading import encoder_settings
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.labelled import LabelledStories
from narrative_twins.files import ResumableFile, digest
from narrative_twins.prompting.chat import Server
from narrative_twins.prompting.prompted import prompted_salience
from narrative_twins.prompting.styles import STYLES
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.options import checked_options, score_settings
from narrative_twins.salience.result import StorySalience, saved_scores
from narrative_twins.stories.reading import stories_in
from narrative_twins.stories.story import Story

RANDOM_DRAWS = 100
"""How often the baseline `random` is drawn, as in the paper."""


@dataclass(frozen=True)
class Scores:
    """The scores of some stories by one run of a scorer.

    Attributes:
        run: the name of the run, for example the folder of an encoder.
        values: by operation or baseline, for each story one number per sentence, or None if it has
            no scores.
        truncated: the number of stories that did not fit the encoder's context.
        context_tokens: the context of the encoder, if there is one.
    """

    run: str
    values: Mapping[str, Sequence[Sequence[float] | None]]
    truncated: int = 0
    context_tokens: int | None = None


@dataclass(frozen=True)
class EncoderScorer:
    """An encoder, or several of different seeds, with operations.

    Args:
        name: in tables.
        encoders: folders, Hub ids or `StoryEncoder`s; None for the default encoder.
        loading: options of `StoryEncoder.from_pretrained`, such as `dtype` or `pooling`.
        scoring: options of `score_stories`, such as `operations`.
    """

    name: str
    encoders: Sequence[StoryEncoder | str | Path | None]
    loading: Mapping[str, Any] = field(default_factory=dict)
    scoring: Mapping[str, Any] = field(default_factory=dict)
    is_encoder: ClassVar[bool] = True

    def scores(
        self, data: LabelledStories, folder: Path | None, progress: bool
    ) -> Iterator[Scores]:
        """The scores of each run; those in the folder are not computed again, others are saved
        there."""
        options: Any = checked_options(self.scoring)
        options["on_truncation"] = self.scoring.get("on_truncation", "ignore")
        options["progress"] = progress
        settings = score_settings(options)
        settings["precision"] = str(self.loading.get("dtype", "auto"))
        for encoder in self.encoders:
            run = "default" if encoder is None else None
            if not isinstance(encoder, StoryEncoder):
                encoder = StoryEncoder.from_pretrained(encoder, **self.loading)
            score = partial(score_stories, encoder=encoder, **options)
            run = run or str(encoder.model.name_or_path)
            yield _scores(run, data, score, folder, self.name, settings | _settings_of(encoder))


@dataclass(frozen=True)
class BaselineScorer:
    """A baseline. `random` is drawn `RANDOM_DRAWS` times.

    Args:
        name: of a registered baseline.
        encoder: for baselines that compare sentences: a `StoryEncoder`, or any object with
            `encode(texts)`. Scores by the latter are not saved, since its exact version is not
            known.
    """

    name: str
    encoder: Any = None
    is_encoder: ClassVar[bool] = False

    def scores(
        self, data: LabelledStories, folder: Path | None, progress: bool
    ) -> Iterator[Scores]:
        """The scores of each run; see `EncoderScorer.scores`."""
        draws = RANDOM_DRAWS if self.name == "random" else 1
        is_embedding = isinstance(BASELINES[self.name], EmbeddingBaseline)
        options = {
            "baselines": self.name,
            "encoder": self.encoder,
            "progress": progress and draws == 1,
        }
        for draw in range(draws):
            score = partial(baseline_scores, seed=draw, **options)
            if is_embedding and isinstance(self.encoder, StoryEncoder):
                settings = _settings_of(self.encoder)
                yield _scores(self.name, data, score, folder, self.name, settings)
            else:
                yield _scores(self.name if draws == 1 else f"draw {draw + 1}", data, score)


@dataclass(frozen=True)
class ResultsScorer:
    """Scores in files of results, such as those of `narrative-twins score --format jsonl` or of a
    prompted model. Each file is a run; stories are matched by their sentences.

    Raises (when scores are asked for):
        OSError, ValueError: a file can't be read, has lines that are not results, or has scores
        for none of the stories.
    """

    name: str
    files: Sequence[str | Path]
    is_encoder: ClassVar[bool] = True

    def scores(
        self, data: LabelledStories, folder: Path | None, progress: bool
    ) -> Iterator[Scores]:
        """The scores of each run; see `EncoderScorer.scores`."""
        for path in self.files:
            found: dict[tuple[str, ...], dict[str, list[float]]] = {}
            with open(path, "rb") as file:
                for where, row, problem in stories_in(file, str(path), "jsonl"):
                    try:
                        scores = saved_scores(row["scores"], len(row["sentences"]))
                        found[tuple(row["sentences"])] = scores
                    except (ValueError, KeyError, TypeError) as error:
                        raise ValueError(
                            f"{where}, is not a result with 'sentences' and 'scores':"
                            f" {problem or error}"
                        ) from None
            chosen = [found.get(story.sentences, {}) for story in data.stories]
            names = list(dict.fromkeys(name for scores in chosen for name in scores))
            if not names:
                raise ValueError(f"{path} has scores for none of the stories of {data.name}")
            values = {name: [scores.get(name) for scores in chosen] for name in names}
            yield Scores(str(path), values)


@dataclass(frozen=True)
class PromptedScorer:
    """A language model that is asked for salience, see `prompting.prompted_salience`. Stories
    without valid answers are undefined.

    Args:
        name: in tables.
        server: the language model.
        answers: the file of the saved answers; questions that it has answers to are not asked
            again.
        styles: ways to ask.
        options: other options of `prompted_salience`, such as `samples`.
    """

    name: str
    server: Server
    answers: str | Path
    styles: Sequence[str] = ("choose", "rate")
    options: Mapping[str, Any] = field(default_factory=dict)
    is_encoder: ClassVar[bool] = True

    def scores(
        self, data: LabelledStories, folder: Path | None, progress: bool
    ) -> Iterator[Scores]:
        """The scores of each run; see `EncoderScorer.scores`."""
        options = {"on_error": "skip", "progress": progress, **self.options}
        values: dict[str, list[Sequence[float] | None]] = {}
        # A story without an answer in one style may have one in another.
        for style in self.styles:
            score = STYLES[style].score
            values[score] = [None] * len(data)
            for result in prompted_salience(
                data.stories, self.server, self.answers, styles=style, **options
            ):
                values[score][result.index] = result.scores[score]
        yield Scores(self.server.model, values)


Scorer: TypeAlias = EncoderScorer | BaselineScorer | ResultsScorer | PromptedScorer


def _scores(
    run: str,
    data: LabelledStories,
    score: Callable[[Sequence[Story]], Iterable[StorySalience]],
    folder: Path | None = None,
    name: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Scores:
    """The scores of a run by the function `score`. With a folder they are saved as JSON Lines in a
    file that is named by `name` and a digest of the `settings` that they depend on; a complete file
    is not computed again, and an interrupted run is resumed."""
    rows: list[dict[str, Any]] = []
    if folder is None:
        rows += (result.to_dict() for result in score(data.stories))
    else:
        settings = {"stories": data.digest, **(settings or {})}
        words = [re.sub(r"[^\w.-]+", "_", word) for word in (data.name, name)]
        os.makedirs(folder, exist_ok=True)
        path = folder / f"{'-'.join(words)}-{digest(settings)[:12]}.jsonl"
        saved = ResumableFile(str(path), settings, resume=True)
        rows += saved.rows()
        # A run that ended between its last row and the end of its file has all rows, too.
        if len(rows) < len(data) or not path.exists():
            with saved as file:
                for result in score(data.stories[len(rows) :]):
                    rows.append(result.to_dict())
                    file.write_row(rows[-1])
    return Scores(
        run,
        {operation: [row["scores"][operation] for row in rows] for operation in rows[0]["scores"]},
        truncated=sum(row["truncated"] for row in rows),
        context_tokens=rows[0]["context_tokens"],
    )


def _settings_of(encoder: StoryEncoder) -> dict[str, Any]:
    """What the vectors of an encoder depend on, as JSON data."""
    return {**encoder_settings(encoder.model.name_or_path, encoder), "pooling": encoder.pooling}

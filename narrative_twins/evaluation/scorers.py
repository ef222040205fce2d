"""What is compared: encoders, baselines and results from files, with scores that are saved and not
computed again."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from narrative_twins.baselines.prompted import prompted_salience
from narrative_twins.baselines.scorers import BASELINES, EmbeddingBaseline, baseline_scores
from narrative_twins.baselines.styles import STYLES
from narrative_twins.encoder.loading import fingerprint
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.labelled import LabelledStories
from narrative_twins.files import ResumableFile
from narrative_twins.llm.server import Server
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import resolve_operations
from narrative_twins.salience.options import SCORING_OPTIONS, checked_options
from narrative_twins.salience.result import StorySalience
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


class Scorer(Protocol):
    """Something that scores stories, in one or several runs (for example seeds of training)."""

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def is_encoder(self) -> bool:
        """Whether the names of its scores are operations."""

    def scores(
        self, data: LabelledStories, folder: Path | None, progress: bool
    ) -> Iterator[Scores]:
        """The scores of each run; those in the folder are not computed again, others are saved
        there."""


@dataclass(frozen=True)
class EncoderScorer:
    """An encoder, or several of different seeds, with operations.

    Args:
        name: in tables.
        encoders: folders, Hub ids or `StoryEncoder`s; None for the default encoder.
        operations: see `score_stories`.
        loading: options of `StoryEncoder.from_pretrained`, such as `dtype` or `pooling`.
        scoring: options of `score_stories`, such as `approximate`.
    """

    name: str
    encoders: Sequence[StoryEncoder | str | Path | None]
    operations: Any = None
    loading: Mapping[str, Any] = field(default_factory=dict)
    scoring: Mapping[str, Any] = field(default_factory=dict)
    is_encoder: ClassVar[bool] = True

    def scores(
        self, data: LabelledStories, folder: Path | None, progress: bool
    ) -> Iterator[Scores]:
        """The scores of each run; see `Scorer.scores`."""
        for encoder in self.encoders:
            loaded = (
                encoder
                if isinstance(encoder, StoryEncoder)
                else StoryEncoder.from_pretrained(encoder, **self.loading)
            )
            yield self._run(loaded, encoder, data, folder, progress)

    def _run(
        self,
        encoder: StoryEncoder,
        name: Any,
        data: LabelledStories,
        folder: Path | None,
        progress: bool,
    ) -> Scores:
        options = checked_options({"operations": self.operations, **self.scoring})
        operations = resolve_operations(options["operations"])
        names = [operation.name for operation in operations]
        precision = str(self.loading.get("dtype", "auto"))
        scoring = {
            name: value
            for name, value in self.scoring.items()
            if SCORING_OPTIONS[name].affects_scores
        }
        settings = {
            **_encoder_settings(encoder),
            "precision": precision,
            "operations": names,
            **scoring,
        }
        saved = _Saved(folder, data, self.name, settings)
        results = score_stories(
            data.stories[len(saved) :],
            encoder,
            **{
                "on_truncation": "ignore",
                **self.scoring,
                "operations": operations,
                "progress": progress,
            },
        )
        return saved.finish(
            str(encoder.model.name_or_path) if name is not None else "default", results
        )


@dataclass(frozen=True)
class BaselineScorer:
    """A baseline. `random` is drawn `RANDOM_DRAWS` times.

    Args:
        name: of a registered baseline.
        encoder: for baselines that compare sentences: a `StoryEncoder`, or any object with
            `encode(texts)`, of which the scores are not saved, since the exact version is not
            known.
        seed: of the first draw.
    """

    name: str
    encoder: Any = None
    seed: int = 0
    is_encoder: ClassVar[bool] = False

    def scores(
        self, data: LabelledStories, folder: Path | None, progress: bool
    ) -> Iterator[Scores]:
        """The scores of each run; see `Scorer.scores`."""
        if self.name == "random":
            for draw in range(RANDOM_DRAWS):
                yield _Saved(None, data, self.name, {}).finish(
                    f"draw {draw + 1}", self._results(data.stories, draw)
                )
            return
        embeds = isinstance(BASELINES[self.name], EmbeddingBaseline)
        if not embeds or not isinstance(self.encoder, StoryEncoder):
            folder = None
        settings = _encoder_settings(self.encoder) if folder is not None else {}
        saved = _Saved(folder, data, self.name, settings)
        yield saved.finish(self.name, self._results(data.stories[len(saved) :], 0, progress))

    def _results(
        self, stories: Sequence[Story], draw: int, progress: bool = False
    ) -> Iterator[StorySalience]:
        return baseline_scores(
            stories, self.name, seed=self.seed + draw, encoder=self.encoder, progress=progress
        )


@dataclass(frozen=True)
class ResultsScorer:
    """Scores in files of results, such as those of `narrative-twins score --format jsonl` or of a
    prompted model. Each file is a run; stories are matched by their sentences.

    Raises (when scores are asked for):
        OSError, ValueError: a file can't be read, has other lines than results, or has none of the
        stories.
    """

    name: str
    files: Sequence[str | Path]
    is_encoder: ClassVar[bool] = True

    def scores(
        self, data: LabelledStories, folder: Path | None, progress: bool
    ) -> Iterator[Scores]:
        """The scores of each run; see `Scorer.scores`."""
        for file in self.files:
            found = dict(_read_results(str(file)))
            chosen = [found.get(story.sentences) for story in data.stories]
            names = {name: None for scores in chosen for name in scores or {}}
            if not names:
                raise ValueError(f"{file} has scores for none of the stories of {data.name}")
            yield Scores(
                str(file), {name: [(scores or {}).get(name) for scores in chosen] for name in names}
            )


@dataclass(frozen=True)
class PromptedScorer:
    """A language model that is asked for salience, see `baselines.prompted_salience`. Stories
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
        """The scores of each run; see `Scorer.scores`."""
        values: dict[str, list[Sequence[float] | None]] = {}
        for style in self.styles:
            options = {"on_error": "skip", "progress": progress, **self.options}
            results = prompted_salience(
                data.stories, self.server, self.answers, styles=style, **options
            )
            column: list[Sequence[float] | None] = [None] * len(data)
            for result in results:
                column[result.index] = result.scores[STYLES[style].score]
            values[STYLES[style].score] = column
        yield Scores(self.server.model, values)


def _read_results(path: str) -> Iterator[tuple[tuple[str, ...], Mapping[str, list[float]]]]:
    """The sentences and scores of each result in a JSON Lines file."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                sentences, scores = (
                    tuple(row["sentences"]),
                    {n: list(map(float, v)) for n, v in row["scores"].items()},
                )
            except (ValueError, KeyError, TypeError, AttributeError):
                raise ValueError(
                    f"{path}, line {number}, is not a result with 'sentences' and 'scores'"
                ) from None
            if any(len(values) != len(sentences) for values in scores.values()):
                raise ValueError(
                    f"{path}, line {number}: there must be one score per sentence and operation"
                )
            yield sentences, scores


class _Saved:
    """The scores of a run in a file, one line per story; those of an interrupted run are
    continued."""

    def __init__(
        self, folder: Path | None, data: LabelledStories, name: str, settings: Mapping[str, Any]
    ) -> None:
        self.data, self.file = data, None
        settings = {"stories": data.digest, **settings}
        if folder is not None:
            # The settings are part of the name: scores by other settings are kept beside these.
            digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
            words = [re.sub(r"[^\w.-]+", "_", word) for word in (data.name, name)]
            os.makedirs(folder, exist_ok=True)
            self.file = ResumableFile(
                str(folder / f"{'-'.join(words)}-{digest}.jsonl"), settings, resume=True
            )
        self.lines = [] if self.file is None else self.file.lines[: len(data)]

    def __len__(self) -> int:
        return len(self.lines)

    def finish(self, run: str, results: Iterator[StorySalience]) -> Scores:
        """The saved scores and those of the remaining stories, which are saved."""
        rows = [json.loads(line) for line in self.lines]
        if len(rows) < len(self.data):
            rows += self._write(results)
        names = list(rows[0]["scores"]) if rows else []
        return Scores(
            run,
            {name: [row["scores"][name] for row in rows] for name in names},
            sum(row["cut_tokens"] > 0 for row in rows),
            rows[0]["context_tokens"] if rows else None,
        )

    def _write(self, results: Iterator[StorySalience]) -> list[dict[str, Any]]:
        if self.file is None:
            return list(map(_row, results))
        rows = []
        with self.file as file:
            for result in results:
                rows.append(_row(result))
                file.write_row(rows[-1])
        return rows


def _row(result: StorySalience) -> dict[str, Any]:
    return {
        "id": result.story.id,
        "scores": dict(result.scores),
        "context_tokens": result.context_tokens,
        "cut_tokens": result.cut_tokens,
    }


def _encoder_settings(encoder: StoryEncoder) -> dict[str, Any]:
    """What vectors of an encoder depend on, as JSON data."""
    path = encoder.model.name_or_path
    return {
        "encoder": Path(path).resolve().name if Path(path).exists() else path,
        "fingerprint": fingerprint(path, encoder.model.config),
        "dtype": str(encoder.dtype).removeprefix("torch."),
        "pooling": encoder.pooling,
        "context tokens": encoder.context_tokens,
    }

"""`StoryScorer` scores batches of rows, for the command line and for engines of large data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow

from narrative_twins.encoder.loading import encoder_settings, no_progress_bars
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.engine import check_one_pass, outcomes
from narrative_twins.salience.options import FAST, ScoringOptions
from narrative_twins.salience.wording import single_sentences
from narrative_twins.stories.story import StoryError

logger = logging.getLogger(__name__)

COLUMNS = {
    "sentences": "list of texts",
    "spans": "start and end of each sentence in the text",
    "windows": "half-open ranges of sentences",
    "scores": "by operation, a number for each sentence",
    "truncated": "whether the story did not fit the encoder",
    "context_tokens": "tokens that the encoder reads at once",
    "cut_tokens": "the largest number of tokens that did not fit",
    "approximate": "the approximation, if the scores are not exact",
    "dtype": "the precision in which the encoder was run",
    "similarity": "how the vectors of texts were compared",
    "error": "why the story was not scored; the others are null then",
}
"""The columns that scoring adds to a row, with their meaning; all but the last are
keys of `StorySalience`."""


class StoryScorer:
    """Scores batches of rows, for `map_batches` of Ray Data, `datasets.map(batched=True)` and more.

    Called with a batch of rows, it returns the batch with the columns `COLUMNS` added (columns of
    the same names are replaced). A story that can't be scored is a row with its `error`. A batch is
    a mapping of columns (lists or arrays) or a `pyarrow.Table`, and the result is of the same kind.
    Tables have the same types for every batch, even if no story could be scored.

    Texts of a batch share forward passes, and equal texts are embedded once, so batches of some
    hundred rows are best. The encoder is loaded when the first batch is scored and is left out when
    the scorer is pickled, so each process of an engine loads an encoder.

    Args:
        encoder: folder or Hub id, None for the default; or a `StoryEncoder`, which is pickled too.
        column: the column of the stories, in any form that `Story.parse` accepts; default the whole
            row, with `text`, `sentences` or `story`.
        loading: options of `StoryEncoder.from_pretrained`, such as `device` and `dtype`.
        options: the options of scoring; None for the defaults below.
        fields: fields of `ScoringOptions` that differ from `options`; see there for errors. The
            default is one pass (`FAST`); `approximate=None` scores exactly. Stories that don't fit
            the encoder are not reported by default; stories that can't be scored always have an
            `error`.
    """

    def __init__(
        self,
        encoder: StoryEncoder | str | Path | None = None,
        *,
        column: str | None = None,
        loading: Mapping[str, Any] | None = None,
        options: ScoringOptions | None = None,
        **fields: Any,
    ) -> None:
        self.column = column
        self._is_told = False  # that most stories are single sentences
        self._name: Any = encoder
        self._loading = dict(loading or {})
        defaults = {**FAST, "on_truncation": "ignore", "on_error": "skip"}
        self.options = ScoringOptions.of_call(options, fields, **defaults)
        self._kept = encoder if isinstance(encoder, StoryEncoder) else None
        self._encoder = self._kept

    @property
    def encoder(self) -> StoryEncoder:
        """The encoder, loaded on first access. Raises as `StoryEncoder.from_pretrained`, and
        ValueError if the options ask for one pass, but the encoder does not pool the mean."""
        if self._encoder is None:
            with no_progress_bars():
                self._encoder = StoryEncoder.from_pretrained(self._name, **self._loading)
        check_one_pass(self._encoder, self.options)
        return self._encoder

    def unload(self) -> None:
        """Forget an encoder that the scorer has loaded; it is loaded again when it is needed."""
        self._encoder = self._kept

    def start(self, number: int) -> Callable[[Iterable[Any]], pyarrow.Table]:
        """Return `table`, for a new process with this number. The encoder of the process is moved
        to the accelerator `number`, if there are several."""
        self._encoder = self.encoder.on_accelerator(number)
        return self.table

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoder": self._kept}

    @property
    def settings(self) -> dict[str, Any]:
        """All that the scores depend on, as JSON data by name. Loads the encoder."""
        name = self._name
        if self._kept is not None:
            name = str(self._kept.model.name_or_path) or "in memory"
        settings = encoder_settings(name, self.encoder) | self.options.settings()
        return settings | {"column": self.column}

    @property
    def schema(self) -> pyarrow.Schema:
        """The types of the columns `COLUMNS`."""
        text, number = pyarrow.string(), pyarrow.int64()
        pairs = pyarrow.list_(pyarrow.list_(number))
        scores = [
            (operation.name, pyarrow.list_(pyarrow.float64()))
            for operation in self.options.operations
        ]
        types = {
            "sentences": pyarrow.list_(text),
            "spans": pairs,
            "windows": pairs,
            "scores": pyarrow.struct(scores),
            "truncated": pyarrow.bool_(),
            "context_tokens": number,
            "cut_tokens": number,
        }
        return pyarrow.schema([(name, types.get(name, text)) for name in COLUMNS])

    def __call__(self, batch: Any) -> Any:
        """Return a batch with the columns `COLUMNS` added, see the class. Raises ValueError if the
        batch lacks the column of the stories, or is a single row."""
        if isinstance(batch, pyarrow.Table):
            rows = self._noted(self.rows(self._stories(batch.to_pydict())))
            scored = pyarrow.Table.from_pylist(rows, self.schema)
            new = {name: scored.column(name) for name in COLUMNS}
            return pyarrow.table({name: batch.column(name) for name in batch.column_names} | new)
        # A table of polars iterates over its columns, and is no mapping.
        columns = batch.to_dict() if hasattr(batch, "get_columns") else dict(batch)
        rows = self._noted(self.rows(self._stories(columns)))
        return columns | {name: [row[name] for row in rows] for name in COLUMNS}

    def _noted(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return scored rows; log a warning, once, if most of them are single sentences."""
        single = sum(row["windows"] == [[0, 1]] for row in rows)
        if not self._is_told and (note := single_sentences(single, len(rows))):
            self._is_told = True
            logger.warning("%s", note)
        return rows

    def _stories(self, columns: Mapping[str, Any]) -> list[Any]:
        """Return the stories of a batch: of the column of stories, or else whole rows. Raises
        ValueError if the batch lacks the column, or is a single row."""
        if self.column is not None and self.column not in columns:
            raise ValueError(f"there is no column {self.column!r}; there are {', '.join(columns)}")
        if texts := [name for name, values in columns.items() if isinstance(values, str)]:
            raise ValueError(
                f"{texts[0]!r} is one text, not a column of a batch; score batches of rows:"
                " map(scorer, batched=True), or map_batches of Ray"
            )
        if self.column is not None:
            return list(columns[self.column])
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def table(self, stories: Iterable[Any]) -> pyarrow.Table:
        """Return the scored `rows` of stories as a table with the columns `COLUMNS`."""
        return pyarrow.Table.from_pylist(self.rows(stories), self.schema)

    def rows(self, stories: Iterable[Any]) -> list[dict[str, Any]]:
        """Score stories, and return a dict with the columns `COLUMNS` for each, in order. `stories`
        are in any form that `Story.parse` accepts, or a `StoryError` if one can't be read."""
        stories = list(stories)
        rows: list[dict[str, Any]] = [dict.fromkeys(COLUMNS) for _ in stories]
        for row, outcome in zip(rows, outcomes(stories, self.encoder, self.options), strict=True):
            if isinstance(outcome, StoryError):
                row["error"] = outcome.problem
            else:
                data = outcome.json()
                row |= {name: data[name] for name in COLUMNS if name in data}
        return rows

"""Builders of data sets, which define the columns and convert the rows of files."""

from __future__ import annotations

import logging
import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import datasets
from datasets import Features, List, Value

from narrative_twins.data import citations, shapes
from narrative_twins.data.exports import RowFormat, salience_records
from narrative_twins.data.held_out import HeldOutStories
from narrative_twins.data.records import Record, read_records
from narrative_twins.data.rows import ShortWindowError
from narrative_twins.data.sources import SplitFiles

logger = logging.getLogger(__name__)

_NOTE = "left_out-"
"""Start of the names of files in which processes tell what they left out."""

_TEXT, _NUMBER, _LABEL = Value("string"), Value("int32"), Value("float64")


@dataclass
class RowsConfig(datasets.BuilderConfig):
    """The files of a data set by split, how many windows to split stories without windows into, the
    fewest sentences of a window (see `shapes.window_twins`), the licence, and whether rows are
    streamed."""

    files: SplitFiles = field(default_factory=dict)
    windows: int = 5
    min_window: int | None = None
    license: str = ""
    streaming: bool = False


class RowsBuilder(datasets.GeneratorBasedBuilder):
    """Reads rows from files; subclasses define the columns, and what users read about the data
    set."""

    BUILDER_CONFIG_CLASS = RowsConfig
    FEATURES: ClassVar[Features]
    ABOUT: ClassVar[str]
    CITATION: ClassVar[str] = citations.NARRATIVE_TWINS

    def shape(self, row: Mapping[str, Any], where: str) -> shapes.Row:
        """Convert a row of a file to the columns of the data set, without its id."""
        raise NotImplementedError

    def records(self, file: str) -> Iterator[Record]:
        """The rows of a file."""
        return read_records(file)

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description=self.ABOUT,
            citation=self.CITATION,
            features=self.FEATURES,
            license=self.config.license,
        )

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        splits = self.config.files.items()
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"files": files, "split": split})
            for split, files in splits
        ]

    def _generate_examples(
        self, files: Iterable[str], split: str
    ) -> Iterator[tuple[str, shapes.Row]]:
        rows, short = 0, list[ShortWindowError]()
        for record in (record for file in files for record in self.records(file)):
            rows += 1
            try:
                row = self.shape(record.row, record.where)
            except ShortWindowError as error:
                short.append(error)
                continue
            yield record.where, {"id": record.id, **row}
        if short:
            self.tell(
                f"{split}: {len(short):,} of {rows:,} rows are left out, which have too few"
                f" sentences in a window (min_window); the first is {short[0]}"
            )

    @property
    def left_out(self) -> str:
        """What was left out of the prepared data set: lines of its description."""
        return str(self.info.description).removeprefix(self.ABOUT).strip()

    def tell(self, words: str) -> None:
        """Tell users what was left out of a split: as a warning if it is streamed; else the
        description of the data set, which is kept in the cache, so that each load can warn of
        it."""
        if self.config.streaming:
            logger.warning("%s", words)
        else:
            # Rows may be read in another process, which has a copy of this object.
            Path(self._output_dir, f"{_NOTE}{uuid.uuid4()}").write_text(words, encoding="utf-8")

    def _prepare_split(
        self, split_generator: datasets.SplitGenerator, *args: Any, **kwargs: Any
    ) -> None:
        super()._prepare_split(split_generator, *args, **kwargs)
        notes = sorted(Path(self._output_dir).glob(f"{_NOTE}*"), key=os.path.getmtime)
        told = [note.read_text(encoding="utf-8") for note in notes]
        for note in notes:
            note.unlink()
        lines = "\n".join(filter(None, [self.left_out, *told]))
        self.info.description = f"{self.ABOUT}\n\n{lines}".strip()


class StoryTwinsBuilder(RowsBuilder):
    """Short stories with narrative twins."""

    ABOUT = (
        "Short stories in sentences, with narrative twins (the same plot in other words) and"
        " negatives (another plot in nearly the same words)."
    )
    FEATURES = Features(
        {"id": _TEXT}
        | {column: List(_TEXT) for column in ("story", "twin", "negative", "negative_twin")}
        | {column: List(_NUMBER) for column in ("story_votes", "negative_votes")}
    )

    def shape(self, row: Mapping[str, Any], where: str) -> shapes.Row:
        return shapes.story_twins(row, where)


class WindowTwinsBuilder(RowsBuilder):
    """Longer stories, split into windows, with narrative twins."""

    ABOUT = (
        "Stories in windows of sentences, with narrative twins (the same plot in other words),"
        " whose sentences are aligned to the windows, negatives (another plot) and turning points."
    )
    FEATURES = Features(
        {
            "id": _TEXT,
            "title": _TEXT,
            "story": List(List(_TEXT)),
            "twin": List(_TEXT),
            "twin_windows": List(List(_NUMBER)),
            "negative": List(List(_TEXT)),
            "turning_points": List(_NUMBER),
        }
    )

    def shape(self, row: Mapping[str, Any], where: str) -> shapes.Row:
        return shapes.window_twins(row, where, self.config.windows, self.config.min_window)


@dataclass
class SalienceConfig(RowsConfig):
    """The format of the rows, the labels of spans that mark salient text, and whether distractors
    are rows too, see `load_story_salience`."""

    row_format: RowFormat = "auto"
    span_labels: list[str] | None = None
    distractors: bool = False


class StorySalienceBuilder(RowsBuilder):
    """Stories with human labels of their sentences, from whatever the annotators gave, or with
    their summaries."""

    BUILDER_CONFIG_CLASS = SalienceConfig
    ABOUT = (
        "Stories in sentences, with human labels of how salient each sentence is, and with"
        " summaries."
    )
    FEATURES = Features(
        {
            "id": _TEXT,
            "title": _TEXT,
            "story": List(_TEXT),
            "windows": List(List(_NUMBER)),
            "labels": List(_LABEL),
            "annotations": List(List(_LABEL)),
            "choices": List(_NUMBER),
            "counts": List(_NUMBER),
            "summaries": List(_TEXT),
        }
    )

    def shape(self, row: Mapping[str, Any], where: str) -> shapes.Row:
        return shapes.story_salience(row, where)

    def records(self, file: str) -> Iterator[Record]:
        for record in salience_records(file, self.config.row_format, self.config.span_labels):
            yield record
            votes = record.row.get("negative_votes") if self.config.distractors else None
            if votes is not None:
                row = {"story": record.row.get("negative"), "votes": votes}
                yield Record(f"{record.where}, its distractor", f"{record.id}-negative", row)


class RocStoriesBuilder(RowsBuilder):
    """ROCStories: training stories, without those of the other splits, which have human labels."""

    ABOUT = (
        "ROCStories in sentences: five-sentence stories; those of the other splits have human"
        " labels."
    )
    CITATION = citations.ROCSTORIES
    FEATURES = StorySalienceBuilder.FEATURES

    def shape(self, row: Mapping[str, Any], where: str) -> shapes.Row:
        return shapes.roc_story(row, where)

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        generators = super()._split_generators(dl_manager)
        # `datasets` streams the files of a list separately, but an id may be repeated in another
        # file.
        for generator in generators:
            generator.gen_kwargs["files"] = tuple(generator.gen_kwargs["files"])
        return generators

    def _generate_examples(
        self, files: Iterable[str], split: str
    ) -> Iterator[tuple[str, shapes.Row]]:
        rows = super()._generate_examples(files, split)
        if split != "train":
            yield from rows
            return
        others = (
            file for name, paths in self.config.files.items() if name != split for file in paths
        )
        labelled, counts = HeldOutStories(others), Counter[str]()
        found, seen = set[str](), set[str]()
        for where, row in rows:
            same = labelled.match(row["id"], row["story"])
            if same is not None:
                found.add(same)
                counts["id" if same == row["id"] else "text"] += 1
            elif row["id"] in seen:
                counts["repeated"] += 1
            else:
                seen.add(row["id"])
                counts["kept"] += 1
                yield where, row
        if labelled.ids or counts["repeated"]:
            left_out = counts.total() - counts["kept"]
            self.tell(
                f"{split}: {left_out:,} of {counts.total():,} stories are left out:"
                f" {counts['id']:,} have the id and {counts['text']:,} only the text of a story"
                f" with labels, {counts['repeated']:,} a repeated id; of {len(labelled.ids):,}"
                f" stories with labels {len(labelled.ids - found):,} are not in the files"
            )


class TurningPointsBuilder(RowsBuilder):
    """Film synopses with their five turning points."""

    ABOUT = "Film synopses in sentences, with the sentences of their five turning points."
    CITATION = citations.TRIPOD
    FEATURES = Features(
        {
            "id": _TEXT,
            "story": List(_TEXT),
            "windows": List(List(_NUMBER)),
            "turning_points": List(_NUMBER),
        }
    )

    def shape(self, row: Mapping[str, Any], where: str) -> shapes.Row:
        return shapes.turning_points(row, where, self.config.windows)

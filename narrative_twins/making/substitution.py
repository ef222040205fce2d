"""Entity substitution: replaces the names of people, places and other entities in rows of narrative
twins.

A twin gets other names than its story, so an encoder that is trained on them can't tell twins by
the same names.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import chain, count, islice, product
from pathlib import Path
from random import Random
from string import ascii_uppercase
from typing import Any

from tqdm import tqdm

from narrative_twins.data.loading import load_story_twins, load_window_twins
from narrative_twins.data.records import Record, read_records
from narrative_twins.data.rows import (
    NEGATIVE_TWIN_NAMES,
    TEXT_COLUMNS,
    TWIN_NAMES,
    RowError,
    check_texts,
)
from narrative_twins.extras import check_extra
from narrative_twins.files import digest_of_files
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.made import Report, RowsFile, facts_of, public_name, recipe_text
from narrative_twins.making.names import (
    LOCALE,
    Entity,
    Found,
    GivenNames,
    Kind,
    Span,
    add_pronouns,
    entities_of,
    find_mentions,
    find_missed,
    occurrences,
    read_names,
    split_words,
)

logger = logging.getLogger(__name__)

_OWN_NAMES = "in the twins only, by names that occur nowhere else in the row"
_SAME_NAMES = "in all texts of a row, by the same new names"

LABELS: dict[Kind, str] = {
    "place": "Location",
    "organization": "Organization",
    "miscellaneous": "Entity",
}
"""Kinds of entities that are replaced by a label and a letter."""

TWIN_SIDES = (TWIN_NAMES, NEGATIVE_TWIN_NAMES)
"""The columns that get names of their own: a twin, and the twin of the distractor."""


@dataclass(frozen=True)
class Substituted:
    """A row with replaced names, and the number of entities by kind whose names were replaced."""

    row: dict[str, Any]
    counts: Counter[Kind]


class EntitySubstitution:
    """Replaces the names in the twins of each row, so that the story and its twin have no name in
    common.

    The twin (`twin`) and the twin of the distractor (`negative_twin`) each get new names that occur
    nowhere else in the row; story and distractor (`negative`) keep their texts. Within a text, a
    person gets one given name for first name, surname and full name. Places become `Location A`,
    `Location B` and so on, organizations `Organization A`, other entities `Entity A`, in the order
    they appear. All other text is kept; so are pronouns, unless the pipeline finds coreference (see
    `find_pronouns`), and a pronoun is far from the mention before it. A name that the pipeline
    missed in one place and found in another, in any text of the row, is replaced in both, unless it
    may be a common word there (see `find_missed`).

    Source: the substitution of the paper on narrative twins, after "Tell me again!" (Hatzel and
    Biemann, 2024).

    Args:
        pipeline: a spaCy pipeline that recognizes entities, or an object with a `pipe` like its.
        names: given names to draw from, by frequency; None for those of Faker in the US.
        seed: seed of the draws. The same seed, row id and names draw the same on every machine.
        same_names: replace the names in all texts of a row, each entity by the same new name in all
            of them.
    """

    def __init__(
        self,
        pipeline: Any,
        names: GivenNames | None = None,
        seed: int = 0,
        *,
        same_names: bool = False,
    ) -> None:
        self.pipeline, self.seed, self.same_names = pipeline, seed, same_names
        self.names = read_names() if names is None else names

    def __call__(self, row: Mapping[str, Any], id: str, where: str = "row") -> Substituted:
        """Replace the names in the texts of a row; other columns, such as the title, are kept.

        Args:
            row: a row in any shape that `load_story_twins` or `load_window_twins` reads.
            id: the id of the row, on which the draw of names depends.
            where: the name of the row in errors.

        Raises:
            RowError: a text is invalid or can't be processed by the pipeline, or all names in the
                list are taken.
        """
        (substituted,) = self.pipe([(row, id, where)])
        return substituted

    def pipe(
        self, rows: Iterable[tuple[Mapping[str, Any], str, str]], batch: int = 32
    ) -> Iterator[Substituted]:
        """Replace the names in rows, lazily: the same as `__call__` for each of them (row, id,
        where), but the pipeline gets the texts of `batch` rows together, which may be faster."""
        remaining = iter(rows)
        while chunk := list(islice(remaining, batch)):
            texts = [_Texts(row, where) for row, _, where in chunk]
            try:
                found: list[Found | None] = list(self._recognized(texts))
            except ValueError:
                # The pipeline failed on some row: process the rows one at a time to find out which.
                found = [None] * len(chunk)
            for text, known, (_, id, where) in zip(texts, found, chunk, strict=True):
                try:
                    mentions = known or next(self._recognized([text]))
                    substituted = self._substituted(text, id, mentions)
                except ValueError as error:
                    raise RowError(where, str(error)) from None
                yield substituted

    def _recognized(self, rows: Sequence[_Texts]) -> Iterator[Found]:
        """Yield the mentions in the texts of each row."""
        documents = iter(self.pipeline.pipe(chain.from_iterable(row.joined() for row in rows)))
        for row in rows:
            columns = list(row.columns.values())
            yield find_mentions(islice(documents, len(columns)), columns, row.lines)

    def _substituted(self, texts: _Texts, id: str, found: Found) -> Substituted:
        entities = entities_of(found, texts.lines, self.names)
        find_missed(entities, found, texts.lines, self.names)
        add_pronouns(entities, found.pronouns)
        # An entity that is in both twin sides is replaced in each by a name of its own.
        replaced: list[tuple[list[Span], Entity]] = []
        for side in [TEXT_COLUMNS] if self.same_names else TWIN_SIDES:
            lines = set(chain(*(texts.columns[name] for name in texts.columns if name in side)))
            spans = (
                sorted(s for s in (*entity.spans, *entity.pronouns) if s.line in lines)
                for entity in entities
            )
            its = [pair for pair in zip(spans, entities, strict=True) if pair[0]]
            replaced += sorted(its, key=lambda pair: pair[0][0])
        names = self._new_names([entity for _, entity in replaced], texts.lines, id)
        changes = [
            (span, entity.written(name, span))
            for (spans, entity), name in zip(replaced, names, strict=True)
            for span in spans
        ]
        counts = Counter(entity.kind for entity in {entity for _, entity in replaced})
        return Substituted(texts.changed(changes), counts)

    def _new_names(
        self, entities: Sequence[Entity], lines: Sequence[str], id: str
    ) -> Iterator[str]:
        """Yield a new name for each of the entities, all different and none of them in the
        lines."""
        random = Random(f"{self.seed}\n{id}")
        folded = [line.casefold() for line in lines]
        taken = {word for line in folded for word in split_words(line)}
        labels = {kind: _free_labels(label, folded) for kind, label in LABELS.items()}
        for entity in entities:
            if entity.kind == "person":
                name = self.names.draw(random, entity.gender(self.names), taken)
                taken.update(split_words(name.casefold()))
                yield name
            else:
                yield next(labels[entity.kind])


class _Texts:
    """The texts of twins in a row.

    Attributes:
        lines: the sentences of all texts.
        columns: the range of the lines of each column.
    """

    def __init__(self, row: Mapping[str, Any], where: str) -> None:
        self.row, self.lines, self.columns = row, list[str](), dict[str, range]()
        for column in check_texts(row, where):
            start = len(self.lines)
            _map_sentences(row[column], self.lines.append)
            self.columns[column] = range(start, len(self.lines))

    def joined(self) -> Iterator[str]:
        """Yield each text as it is passed to a pipeline."""
        for lines in self.columns.values():
            yield " ".join(self.lines[lines.start : lines.stop])

    def changed(self, changes: Iterable[tuple[Span, str]]) -> dict[str, Any]:
        """The row with spans replaced by new names."""
        lines = list(self.lines)
        # From the end, so that the positions of earlier spans stay valid.
        for (line, start, end), name in sorted(changes, reverse=True):
            lines[line] = lines[line][:start] + name + lines[line][end:]
        rest = iter(lines)
        columns = {
            name: _map_sentences(self.row[name], lambda _: next(rest)) for name in self.columns
        }
        return {**self.row, **columns}


def _map_sentences(content: Any, change: Callable[[str], Any]) -> Any:
    """The content of a column with each sentence changed: a list of sentences or windows, or
    sections by name."""
    if isinstance(content, str):
        return change(content)
    if isinstance(content, Mapping):
        return {name: _map_sentences(part, change) for name, part in content.items()}
    return [_map_sentences(part, change) for part in content]


def _free_labels(label: str, folded: Sequence[str]) -> Iterator[str]:
    """Yield `Location A` to `Location Z`, `Location AA` and so on, except those in the case-folded
    lines."""
    for length in count(1):
        for letters in product(ascii_uppercase, repeat=length):
            name = f"{label} {''.join(letters)}"
            if not any(True for line in folded for _ in occurrences(line, [name.casefold()])):
                yield name


@dataclass(frozen=True)
class Replaced:
    """What `replace_entities` did.

    Attributes:
        counts: the number of entities whose names were replaced, by kind, counted in each row.
        rows: number of rows of this run.
        unchanged: how many of them have no names that are replaced.
        done: number of rows of an earlier run.
    """

    counts: Counter[Kind]
    rows: int
    unchanged: int
    done: int


def replace_entities(
    rows: str,
    out: str,
    pipeline: str,
    *,
    names: str = LOCALE,
    seed: int = 0,
    same_names: bool = False,
    resume: bool = False,
    progress: bool = False,
    report: Report = logger.warning,
) -> Replaced:
    """Replace the names in a file of rows by `EntitySubstitution`, and write the rows with their
    facts and their card, see `RowsFile`.

    Args:
        rows: the file of the rows.
        out: the JSON Lines file to write, or `-` for standard output.
        pipeline: the folder or the name of a spaCy pipeline.
        names: a locale of Faker, see `read_names`.
        seed, same_names: see `EntitySubstitution`.
        resume: resume an interrupted run.
        progress: show a progress bar.
        report: is called with each problem.

    Raises:
        ImportError: spaCy or Faker is not installed.
        ResumeError: the earlier run had other rows or settings.
        OSError, ValueError: a row is invalid (`RowError`), or a file can't be read or written.
    """
    check_extra("entities")
    import spacy

    given = read_names(names)
    # Before hours of work.
    total, twinless = _checked(rows)
    recognizer = spacy.load(pipeline)
    naming = _SAME_NAMES if same_names else _OWN_NAMES
    settings = {
        "rows": Path(rows).resolve().name,
        "names replaced": naming,
        "names recognized by": f"{public_name(pipeline)} {recognizer.meta.get('version', '')}",
        "pipeline fingerprint": digest_of_files(recognizer.path),
        "given names": f"{names} of Faker {metadata.version('faker')}",
        "seed": seed,
    }
    file = RowsFile(out, settings, resume)
    records, changed = read_records(rows), 0
    for number, row in enumerate(file.rows(), start=1):
        record = next(records, None)
        if record is None or row.get("id") != _with_id(record)["id"]:
            problem = f"is not row {number} of {rows}; write to another file"
            raise file.not_resumable(number, problem)
        changed += row != _with_id(record)
    done = len(file.lines)
    if twinless and not same_names:
        report(
            f"{twinless:,} of {total:,} rows have no twin, so no names are replaced there;"
            " --same-names replaces those of all texts"
        )
    counts, unchanged = Counter[Kind](), 0
    substitution = EntitySubstitution(recognizer, given, seed, same_names=same_names)
    with file:
        found = substitution.pipe((_with_id(each), each.id, each.where) for each in records)
        for changes in tqdm(found, total=total - done, unit="row", disable=not progress):
            file.write_row(changes.row)
            counts.update(changes.counts)
            unchanged += not changes.counts
    if file.is_regular:
        known = facts_of(rows) or DatasetFacts(
            "Narrative twins", "Stories with narrative twins.", "", ""
        )
        recipe = recipe_text("narrative-twins make entities", settings)
        facts = replace(
            known,
            name=f"{known.name} with replaced names",
            description=f"{known.description}\n\nNames are replaced {naming}. There are other names"
            f" in {changed + total - done - unchanged:,} of {total:,} rows.",
            source=f"{known.source}\n\n{recipe}".strip(),
            limits=f"{known.limits} Names are recognized by a pipeline, which misses some, and"
            " replaces some words that are not names.".strip(),
        )
        file.describe(facts, _load, report)
    return Replaced(counts, total - done, unchanged, done)


def _checked(path: str) -> tuple[int, int]:
    """The number of rows of a file, and of those without a twin; raises RowError for a row that is
    invalid or can't be written as JSON."""
    rows = twinless = 0
    for record in read_records(path):
        columns = check_texts(record.row, record.where)
        try:
            json.dumps(record.row, ensure_ascii=False).encode("utf-8")
        except (TypeError, ValueError) as error:
            problem = f"can't be written as JSON ({error}); fix or remove the column"
            raise RowError(record.where, problem) from None
        rows += 1
        twinless += not any(column in side for side in TWIN_SIDES for column in columns)
    return rows, twinless


def _with_id(record: Record) -> dict[str, Any]:
    """A row with the id that it is loaded with, since the default id depends on the file."""
    row = dict(record.row)
    return row if row.get("id") is not None else {"id": record.id} | {**row, "id": record.id}


def _load(source: Any, cache_dir: str) -> Any:
    """Load rows of stories or of windows."""
    try:
        return load_story_twins(source, cache_dir=cache_dir)
    except RowError:
        return load_window_twins(source, cache_dir=cache_dir)

"""The training stories of the paper: ROCStories without the stories that have human labels.

    python research/paper/roc_stories.py ROCStories_spring2016.csv ROCStories_winter2017.csv \\
        --exclude igorsterner/rocstory-salience --stories 20000 -o roc_train.jsonl

The tables are free for research on request from the University of Rochester. `--exclude` takes the
stories with labels in any form that `load_story_salience` reads: a Hub id, a folder, or files. They
are recognized by their ids and by their texts, whatever the case and the white space. A row of the
output has `id`, `title` and `story`, for `narrative-twins make twins` and the training scripts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

import pandas as pd

from narrative_twins.data import RowError, load_story_salience
from narrative_twins.data.rows import check_sentences
from narrative_twins.writing import atomic_write

COLUMNS = ["storyid", "storytitle", *(f"sentence{number}" for number in range(1, 6))]


def rows_of(table: str) -> Iterator[dict[str, Any]]:
    """The stories of a table, with single spaces; a RowError if a column or a sentence is missing."""
    rows = pd.read_csv(table, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    if missing := set(COLUMNS).difference(rows.columns):
        problem = f"has no column {min(missing)!r}; pass the tables of ROCStories (.csv)"
        raise RowError(table, problem)
    for number, cells in enumerate(rows[COLUMNS].itertuples(index=False), start=1):
        name, title, *sentences = (" ".join(cell.split()) for cell in cells)
        story = check_sentences(sentences, "story", f"{table}, row {number}, id {name!r}")
        yield {"id": name, "title": title, "story": story}


def text_of(story: Sequence[str]) -> str:
    """The text of a story in one case, with single spaces."""
    return " ".join(" ".join(story).split()).casefold()


def without(
    rows: Iterable[dict[str, Any]], labelled: Iterable[dict[str, Any]]
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """The rows that are not `labelled` and whose id is not repeated; and how many are left out for
    which reason."""
    labelled = list(labelled)
    ids, texts = {row["id"] for row in labelled}, {text_of(row["story"]) for row in labelled}
    kept: dict[str, dict[str, Any]] = {}
    left_out: Counter[str] = Counter()
    for row in rows:
        if row["id"] in ids:
            left_out["with the id of a story with labels"] += 1
        elif text_of(row["story"]) in texts:
            left_out["with the text of a story with labels"] += 1
        elif row["id"] in kept:
            left_out["with a repeated id"] += 1
        else:
            kept[row["id"]] = row
    return list(kept.values()), left_out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="+", metavar="CSV", help="the tables of ROCStories")
    parser.add_argument("--exclude", nargs="+", required=True, help="stories with labels")
    parser.add_argument("--stories", type=int, help="how many stories to draw; default all")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("-o", "--output", required=True, help="the JSON Lines file to write")
    arguments = parser.parse_args()
    sources = arguments.exclude if len(arguments.exclude) > 1 else arguments.exclude[0]
    try:
        labelled = [row for split in load_story_salience(sources).values() for row in split]
        tables = (row for table in arguments.tables for row in rows_of(table))
        rows, left_out = without(tables, labelled)
    except (OSError, ValueError) as error:
        sys.exit(f"roc_stories.py: {error}")
    if arguments.stories is not None:
        rows = Random(arguments.seed).sample(rows, min(arguments.stories, len(rows)))
    with atomic_write(arguments.output) as file:
        for row in rows:
            file.write(f"{json.dumps(row, ensure_ascii=False)}\n")
    reasons = "".join(f"; left out: {count:,} {reason}" for reason, count in left_out.items())
    print(f"{len(rows):,} stories in {arguments.output}{reasons}", file=sys.stderr)


if __name__ == "__main__":
    main()

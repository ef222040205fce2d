r"""Convert the corpora of the package from JSON Lines to Parquet.

    python research/encoders/make_corpora.py STORIES.jsonl VOTES.jsonl SYNOPSES.jsonl EVERYDAY.jsonl \
        PROSE.jsonl

VOTES.jsonl has `story_votes` and `negative_votes` of the stories, by `id`; EVERYDAY.jsonl and
PROSE.jsonl have `id`, `story`, and `votes` or `kind` and `labels`. Writes train.parquet and
validation.parquet of each into the package. About a tenth of the rows is for validation, chosen by
a checksum of the id, so that rows keep their split when others are added. Rows keep their order.
"""

import json
import sys
import tempfile
import zlib
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet

import narrative_twins.data
from narrative_twins.data import load_story_twins, load_window_twins

PACKAGE = Path(narrative_twins.data.__file__).parent


def is_validation(name: str) -> bool:
    return zlib.crc32(name.encode()) % 10 == 0


def with_votes(stories: Path, votes: Path, out: Path) -> str:
    """Write the rows of stories with their votes; returns the path."""
    by_id = {
        row["id"]: row for row in map(json.loads, votes.read_text(encoding="utf-8").splitlines())
    }
    rows = [
        row | by_id[row["id"]]
        for row in map(json.loads, stories.read_text(encoding="utf-8").splitlines())
    ]
    out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(out)


def write(corpus: str, rows: datasets.Dataset) -> None:
    """Write the two splits of a corpus."""
    (PACKAGE / corpus).mkdir(exist_ok=True)
    for split, validation in (("train", False), ("validation", True)):
        file = PACKAGE / corpus / f"{split}.parquet"
        chosen = [row for row in rows if is_validation(row["id"]) == validation]
        table = pyarrow.Table.from_pylist(chosen, schema=rows.features.arrow_schema)
        # Sentences hardly repeat, so dictionary encoding would only add to the size.
        pyarrow.parquet.write_table(
            table, file, compression="zstd", compression_level=19, use_dictionary=False
        )
        print(
            f"{file.relative_to(PACKAGE)}: {len(chosen)} rows, {file.stat().st_size / 1e6:.2f} MB"
        )


def main() -> None:
    stories, votes, synopses, *judged = sys.argv[1:]
    with tempfile.TemporaryDirectory() as cache:
        stories = with_votes(Path(stories), Path(votes), Path(cache) / "stories.jsonl")
        write("stories", load_story_twins(stories, "train", cache_dir=cache))
        write("synopses", load_window_twins(synopses, "train", cache_dir=cache))
    for corpus, path in zip(("everyday", "prose"), judged, strict=True):
        write(
            corpus,
            datasets.Dataset.from_list(
                list(map(json.loads, Path(path).read_text(encoding="utf-8").splitlines()))
            ),
        )


if __name__ == "__main__":
    main()

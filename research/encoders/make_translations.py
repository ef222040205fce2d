"""Make the corpus `translations` of the package from files of translated stories.

    python research/encoders/make_translations.py FOLDER

FOLDER has train.LANGUAGE.jsonl and validation.LANGUAGE.jsonl, with the `id` of a story of the corpus
`stories`, and its `story` and `negative` in the language, sentence by sentence. A row of the corpus
has the translation as the story, the English original as its twin, both with their distractors, and
the votes for the sentences of the original.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

import narrative_twins.data
from narrative_twins.data.sources import corpus_rows

PACKAGE = Path(narrative_twins.data.__file__).parent
LANGUAGES = ("ar", "de", "es", "fr", "hi", "it", "ja", "ko", "pt", "ru", "tr", "zh")
TEXTS = ("story", "twin", "negative", "negative_twin")
VOTES = ("story_votes", "negative_votes")


def rows(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a split, language by language. Ends the program if a translation has
    another number of sentences than its original."""
    originals = {row["id"]: row for row in corpus_rows("stories")[split]}
    for language in LANGUAGES:
        file = folder / f"{split}.{language}.jsonl"
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            original = originals[row["id"]]
            for column in ("story", "negative"):
                if len(row[column]) != len(original[column]) or not all(
                    map(str.strip, row[column])
                ):
                    raise SystemExit(f"{file}, {row['id']}: {column} has other sentences")
            yield {
                "id": f"{row['id']}-{language}",
                "language": language,
                "story": row["story"],
                "twin": original["story"],
                "negative": row["negative"],
                "negative_twin": original["negative"],
                **{column: original[column] for column in VOTES},
            }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    texts, numbers = pyarrow.list_(pyarrow.string()), pyarrow.list_(pyarrow.int32())
    schema = pyarrow.schema(
        [("id", pyarrow.string()), ("language", pyarrow.string())]
        + [(name, texts) for name in TEXTS]
        + [(name, numbers) for name in VOTES]
    )
    (PACKAGE / "translations").mkdir(exist_ok=True)
    for split in ("train", "validation"):
        table = pyarrow.Table.from_pylist(list(rows(folder, split)), schema=schema)
        file = PACKAGE / "translations" / f"{split}.parquet"
        pyarrow.parquet.write_table(table, file, compression="zstd", compression_level=19)
        print(f"{file.relative_to(PACKAGE)}: {len(table)} rows, {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

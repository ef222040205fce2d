"""Write the corpora of the package into a folder, as a data set for the Hub:

    python release/export_corpora.py corpora

Then `datasets.load_dataset("corpora", "stories")` loads one of them, or `"synopses"`, `"everyday"`,
`"prose"` and `"translations"`. The folder appears when it is complete.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from huggingface_hub import RepoCard

from narrative_twins.data.sources import CARD, CORPORA, corpus_files, corpus_rows
from narrative_twins.hub.cards import PLACEHOLDER_ID, card_of_rows, template
from narrative_twins.hub.facts import DatasetFacts, read_facts
from narrative_twins.hub.push import parquet_name, write_files

FACTS = Path(__file__).parent.parent / "hub_cards" / "corpora.yaml"


def export_corpora(folder: str | os.PathLike[str]) -> list[str]:
    """Write the corpora into a new or empty folder, in one that exists (else OSError). Returns the
    names of its files, relative to the folder."""
    target = Path(folder).resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{folder} is a file or a folder with files; name a new folder")
    rows = {name: corpus_rows(name) for name in CORPORA}
    card = card_of_rows(rows, read_facts(DatasetFacts, FACTS))
    content: dict[str, Path | str] = {CARD: str(card)}
    for name in CORPORA:
        own = RepoCard(template(f"dataset_card_{name}.md"), ignore_metadata_errors=True)
        load = f'load_dataset("{PLACEHOLDER_ID}"'
        content[f"{name}/{CARD}"] = own.text.lstrip().replace(f"{load})", f'{load}, "{name}")')
        for split, (file,) in corpus_files(name).items():
            content[f"{name}/{parquet_name(split)}"] = Path(file)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        write_files(Path(scratch, "complete"), content)
        if target.exists():
            target.rmdir()
        os.replace(Path(scratch, "complete"), target)
    return sorted(content)


if __name__ == "__main__":
    try:
        print("\n".join(export_corpora(*sys.argv[1:])))
    except (OSError, TypeError) as error:
        sys.exit(f"export_corpora.py FOLDER: {error}")

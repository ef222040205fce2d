"""The corpora of the package as one data set in a folder: Parquet files by configuration and split,
and their cards. `datasets.load_dataset` loads it, and `push_dataset` pushes it."""

from __future__ import annotations

import os
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from huggingface_hub import RepoCard

from narrative_twins.data.sources import CORPORA, corpus_files, corpus_rows
from narrative_twins.hub.cards import PLACEHOLDER_ID, card_of_rows, template
from narrative_twins.hub.facts import DatasetFacts, read_facts


def export_corpora(folder: str | os.PathLike[str]) -> list[str]:
    """Write the corpora of the package into a folder: `datasets.load_dataset(folder, "stories")`,
    or `"synopses"`, `"everyday"` and `"prose"`. The folder appears when it is complete.

    Args:
        folder: a new or empty folder.

    Returns:
        The names of its files, relative to the folder.

    Raises:
        FileExistsError: the folder is not empty.
        OSError: the folder can't be written; then it is not there, or as before.
    """
    target = Path(folder).resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir()) or target == Path.cwd()):
        raise FileExistsError(
            f"{folder} is a file, the working directory or a folder with files; name a new folder"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of {folder} does not exist; create it first")
    content = _corpora()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        made = Path(scratch) / "made"
        for name, data in content.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(data)
        if target.exists():
            target.rmdir()
        os.replace(made, target)
    return sorted(content)


def _corpora() -> dict[str, bytes]:
    """The content of the files by name."""
    with as_file(files("narrative_twins.hub_cards").joinpath("corpora.yaml")) as facts:
        card = card_of_rows(
            {name: corpus_rows(name) for name in CORPORA}, read_facts(DatasetFacts, facts)
        )
    found = {"README.md": str(card).encode("utf-8")}
    for name in CORPORA:
        body = RepoCard(
            template(f"dataset_card_{name}.md"), ignore_metadata_errors=True
        ).text.lstrip()
        configured = body.replace(
            f'load_dataset("{PLACEHOLDER_ID}")', f'load_dataset("{PLACEHOLDER_ID}", "{name}")'
        )
        found[f"{name}/README.md"] = configured.encode("utf-8")
        for split, paths in corpus_files(name).items():
            for number, path in enumerate(paths):
                found[f"{name}/{split}-{number:05}-of-{len(paths):05}.parquet"] = Path(
                    path
                ).read_bytes()
    return found

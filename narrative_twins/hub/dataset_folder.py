"""The files of a data set in a folder with a card, as `push_dataset` pushes them."""

from __future__ import annotations

from pathlib import Path

from narrative_twins.data.sources import CARD, configurations, source_files
from narrative_twins.hub.cards import fill_in_id
from narrative_twins.hub.layout import check_inside


def dataset_files(folder: Path, repo_id: str) -> dict[str, Path | bytes]:
    """The files of a data set by name: its card, the data files that the configurations of the card
    name, and cards beside these. `user/name` in cards becomes the Hub id.

    Raises:
        FileNotFoundError: the folder, its card or the files of a configuration are missing.
        ValueError: the card has no configurations, or a file is a link out of the folder.
    """
    if not (folder / CARD).is_file():
        raise FileNotFoundError(
            f"{folder} is not a folder with a {CARD}; give one, such as that of `data export`"
        )
    names = list(configurations(folder))
    if not names:
        raise ValueError(
            f"{folder / CARD} has no `configs` in its metadata, which name the data files; add them"
        )
    splits = [source_files(folder, name=name) for name in names]
    data = {Path(file) for found in splits for files in found.values() for file in files}
    cards = {
        folder / CARD,
        *(path.parent / CARD for path in data if (path.parent / CARD).is_file()),
    }
    check_inside(folder, sorted(data | cards))
    texts = {
        path: fill_in_id(path.read_text(encoding="utf-8"), repo_id).encode("utf-8")
        for path in cards
    }
    return {
        path.relative_to(folder).as_posix(): texts.get(path, path) for path in sorted(data | cards)
    }

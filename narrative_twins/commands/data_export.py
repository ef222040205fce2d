"""`narrative-twins data export`: the corpora of the package as a folder that `datasets` loads."""

from __future__ import annotations

import argparse

from narrative_twins.hub.corpora import export_corpora


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Write the corpora of the package into a folder, as Parquet files with a card: "
        'datasets.load_dataset(FOLDER, "stories"), or "synopses", "everyday" and "prose".'
    )
    parser.add_argument(
        "folder", metavar="FOLDER", help="a new or empty folder, which appears when it is complete"
    )


def run(options: argparse.Namespace) -> int:
    """Write the folder, and list its files."""
    for name in export_corpora(options.folder):
        print(name)
    return 0

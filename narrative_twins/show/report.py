"""A report on many stories: a folder of pages that opens from disk.

index.html                 the list of stories, to search and sort
stories/000001-a-name.html one page per story: its table, its curves, links to its neighbours
scores.jsonl               the scores of all stories, for `show`
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from markupsafe import Markup

from narrative_twins.plots.style import check_matplotlib, render, shortened
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.pages import page, section, templates

INDEX, PAGES, SCORES = "index.html", "stories", "scores.jsonl"

_PAGE = re.compile(r"\d{6,}(-[a-z0-9-]*)?\.html")
_CURVES_WIDTH = 3.6  # inches, the width of a phone; wider pages scale the curves up


class Report:
    """A report, which appears under its name when it is complete. An earlier report is replaced; a
    folder with other files is refused.

    Args:
        path: the folder.
        top: show only this many sentences of each story, as in `to_table`.

    Attributes:
        no_curves: why pages have no curves; None if they have curves.

    Raises:
        OSError: no folder can be created there.
        ValueError: the folder contains files that are not of a report.
    """

    def __init__(self, path: str | os.PathLike[str], top: int | None = None) -> None:
        self.path, self.top = Path(path).resolve(), top
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder of {path} does not exist; create it first")
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(
                f"{self.path} is a file; a report is a folder, choose another name"
            )
        if self.path.exists() and not _is_replaceable(self.path):
            raise ValueError(
                f"{self.path} contains other files than a report; name a new or an empty folder"
            )
        self.no_curves: str | None = None
        try:
            check_matplotlib()
        except ModuleNotFoundError as error:
            self.no_curves = str(error)

    def write(
        self, results: Iterable[StorySalience], left_out: Callable[[], int] = lambda: 0
    ) -> int:
        """Write the pages as results arrive, and return how many there are.

        Args:
            results: read lazily; one is held in memory until its page can link to the next.
            left_out: called at the end for the number of stories that could not be scored.
        """
        with TemporaryDirectory(prefix=f"{self.path.name}.part-", dir=self.path.parent) as scratch:
            # Folders in the temporary folder have the permissions that the user has chosen.
            new = Path(scratch, "new")
            (new / PAGES).mkdir(parents=True)
            script = files("narrative_twins.show").joinpath("templates/index.js")
            with Path(scratch, "rows").open("w+", encoding="utf-8") as rows:
                count = 0
                with (new / SCORES).open("w", encoding="utf-8") as scores:
                    for row in self._write_stories(results, new):
                        count = row["position"]
                        scores.write(json.dumps(row.pop("scores")) + "\n")
                        rows.write(json.dumps(row) + "\n")
                rows.seek(0)
                _write(
                    new / INDEX,
                    "report_index.html",
                    "Narrative salience",
                    script=script.read_text("utf-8"),
                    rows=map(json.loads, rows),
                    count=count,
                    left_out=left_out(),
                )
            if self.path.exists():
                self.path.rename(Path(scratch, "old"))
            new.rename(self.path)
        return count

    def _write_stories(
        self, results: Iterable[StorySalience], folder: Path
    ) -> Iterator[dict[str, Any]]:
        """Write the page of each story; yields its row of the index, and its scores."""
        named = ((_page_name(n, result), result) for n, result in enumerate(results, start=1))
        neighbours = pairwise(chain(named, [("", None)]))
        previous = ""
        for position, ((name, result), (following, _)) in enumerate(neighbours, start=1):
            assert result is not None
            between = (
                templates()
                .get_template("report_curves.html")
                .render(
                    svg=self.no_curves is None and Markup(_curves(result)), problem=self.no_curves
                )
            )
            _write(
                folder / PAGES / name,
                "report_page.html",
                result.name,
                story=Markup(section(result, self.top, level=1, between=between)),
                previous=previous,
                following=following,
            )
            previous = name
            yield {
                "position": position,
                "page": name,
                "name": shortened(result.name, 160, both_ends=True),
                "sentences": len(result),
                "first": shortened(result.sentences[0], 90),
                "truncated": result.truncated,
                "top": shortened(result.top(1)[0].sentence, 160),
                "scores": result.to_dict(),
            }


def _write(path: Path, template: str, title: str, **values: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(page(template, title, **values))


def _curves(result: StorySalience) -> str:
    svg = render(result.plot(width=_CURVES_WIDTH, bare=True), "svg").decode("utf-8")
    return svg[svg.index("<svg") :]


def _page_name(number: int, result: StorySalience) -> str:
    """The file name of a story: safe for any id, and unique on any file system because of the
    number."""
    name = "" if result.story.id is None else result.name[-200:]
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    words = re.sub("[^a-z0-9]+", "-", plain.lower())[-40:].strip("-")
    return f"{number:06d}-{words}.html" if words else f"{number:06d}.html"


def _is_replaceable(folder: Path) -> bool:
    """Whether a folder is empty, or a report and nothing else."""
    found = {path.name for path in folder.iterdir()}
    if found != {INDEX, PAGES, SCORES}:
        return not found
    pages = folder / PAGES
    return pages.is_dir() and all(_PAGE.fullmatch(path.name) for path in pages.iterdir())

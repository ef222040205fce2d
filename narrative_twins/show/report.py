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
from collections.abc import Callable, Iterable
from itertools import chain, pairwise
from tempfile import TemporaryDirectory
from typing import Any

from narrative_twins.plots.style import check_matplotlib, render, shortened
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.pages import report_index, report_page

INDEX, PAGES, SCORES = "index.html", "stories", "scores.jsonl"

_PAGE = re.compile(r"\d{6,}(-[a-z0-9-]*)?\.html")
_END: Any = (0, "", None)
"""Follows the last story, whose page has no next one."""

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
        self.path, self.top = os.path.realpath(path), top
        if not os.path.isdir(os.path.dirname(self.path)):
            raise FileNotFoundError(f"the folder of {path} does not exist; create it first")
        if os.path.lexists(self.path) and not os.path.isdir(self.path):
            raise NotADirectoryError(
                f"{self.path} is a file; a report is a folder, choose another name"
            )
        if os.path.isdir(self.path) and not _is_replaceable(self.path):
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
        folder, name = os.path.split(self.path)
        pages = ((n, _page_name(n, result), result) for n, result in enumerate(results, start=1))
        with TemporaryDirectory(prefix=f"{name}.part-", dir=folder) as scratch:
            # Folders in the temporary folder have the permissions that the user has chosen.
            new, old = os.path.join(scratch, "new"), os.path.join(scratch, "old")
            os.makedirs(os.path.join(new, PAGES))
            count, previous = 0, ""
            with (
                open(os.path.join(new, SCORES), "w", encoding="utf-8") as scores,
                open(os.path.join(scratch, "rows"), "w+", encoding="utf-8") as rows,
            ):
                for (count, page, result), (_, following, _) in pairwise(chain(pages, [_END])):
                    curves = self._curves(result)
                    with open(os.path.join(new, PAGES, page), "w", encoding="utf-8") as file:
                        file.writelines(report_page(result, self.top, curves, previous, following))
                    scores.write(json.dumps(result.to_dict()) + "\n")
                    rows.write(json.dumps(_row(count, page, result)) + "\n")
                    previous = page
                rows.seek(0)
                with open(os.path.join(new, INDEX), "w", encoding="utf-8") as file:
                    file.writelines(report_index(map(json.loads, rows), count, left_out()))
            if os.path.exists(self.path):
                os.rename(self.path, old)
            os.rename(new, self.path)
        return count

    def _curves(self, result: StorySalience) -> str:
        if self.no_curves is not None:
            return self.no_curves
        svg = render(result.plot(width=_CURVES_WIDTH, bare=True), "svg").decode("utf-8")
        return svg[svg.index("<svg") :]


def _row(position: int, page: str, result: StorySalience) -> dict[str, object]:
    """The data of a story in the index."""
    (best,) = result.top(1)
    return {
        "position": position,
        "page": page,
        "name": shortened(result.name, 160, both_ends=True),
        "sentences": len(result),
        "first": shortened(result.sentences[0], 90),
        "truncated": result.truncated,
        "top": shortened(best.sentence, 160),
    }


def _page_name(number: int, result: StorySalience) -> str:
    """The file name of a story: safe for any id, and unique on any file system because of the
    number."""
    text = unicodedata.normalize("NFKD", result.name[-200:])
    plain = text.encode("ascii", "ignore").decode("ascii").lower()
    words = re.sub("[^a-z0-9]+", "-", plain)[-40:].strip("-") if result.story.id is not None else ""
    return f"{number:06d}-{words}.html" if words else f"{number:06d}.html"


def _is_replaceable(folder: str) -> bool:
    """Whether a folder is empty, or a report and nothing else."""
    found = set(os.listdir(folder))
    if found != {INDEX, PAGES, SCORES}:
        return not found
    pages = os.path.join(folder, PAGES)
    return os.path.isdir(pages) and all(map(_PAGE.fullmatch, os.listdir(pages)))

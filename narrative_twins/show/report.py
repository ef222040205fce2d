"""A report on many stories: a folder of pages that opens from disk.

index.html                 the list of stories, to search and sort; written when all pages are
stories/000001-a-name.html one page per story: its table, its curves, links to its neighbours
report.jsonl               the data of the index, one line per story, from which an interrupted run
continues report.jsonl.run           the settings of the run
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from html import escape
from types import TracebackType
from typing import Any

from narrative_twins.files import (
    AtomicFile,
    ResumableFile,
    ResumeError,
    complete_lines,
    lock,
    run_path,
    run_settings,
)
from narrative_twins.plots.printable import shortened
from narrative_twins.plots.style import check_matplotlib, render
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.html import PAGE_END, page_head, section
from narrative_twins.show.report_index import index_page
from narrative_twins.stories.reading import story_digest

LIST, INDEX, PAGES = "report.jsonl", "index.html", "stories"

_KIND: dict[str, Any] = {
    "kind": "narrative_twins report"
}  # a setting by which reports are recognized
_PAGE = re.compile(r"\d{6,}(-[a-z0-9-]*)?\.html")
_CURVES_WIDTH = 3.6  # inches, the width of a phone; wider pages scale the curves up


class Report:
    """A report, written page by page as results arrive. The folder appears under its name when it
    is complete; until then it is `NAME.part`, which is kept if the run is interrupted. An earlier
    report is replaced; other files in its folder are kept.

        report = Report("folder")
        done = report.begin({"operations": ["deletion"]})
        with report:
            for result in results:
                report.add(result)

    Args:
        path: the folder.
        top: show only this many sentences of each story, as in `to_table`.
        resume: continue `NAME.part`, if it exists.

    Attributes:
        no_curves: why pages have no curves; None if they have curves.
        left_out: the number of stories that could not be scored, for the index; set it before the
            end.

    Raises:
        OSError: no folder can be created there.
        ValueError: the folder exists and is not a report, or an interrupted report exists and
            `resume` is not set.
    """

    def __init__(self, path: str, top: int | None = None, resume: bool = False) -> None:
        self.path, self.top, self.left_out = os.path.realpath(path), top, 0
        self.part = f"{self.path}.part"
        # The number of pages so far, the last of them, and the page that it links to as the next
        # one.
        self.count, self._last, self._next = 0, "", ""
        self._waiting: tuple[str, StorySalience] | None = None
        self._settings: dict[str, Any] = {}
        self._folder = -1  # the descriptor that holds the lock
        if not os.path.isdir(os.path.dirname(self.path)):
            raise FileNotFoundError(f"the folder of {path} does not exist; create it first")
        for folder in (self.path, self.part):
            if os.path.lexists(folder) and not os.path.isdir(folder):
                raise NotADirectoryError(
                    f"{folder} is a file; a report is a folder, choose another name"
                )
            if os.path.isdir(folder) and os.listdir(folder) and not _is_report(folder):
                raise ValueError(
                    f"{folder} contains other files than a report; name a new or an empty folder"
                )
        pages = len(complete_lines(os.path.join(self.part, LIST)))
        if pages and not resume:
            raise ValueError(
                f"{self.part} has {pages} pages of an interrupted report; resume it, or remove it"
            )
        self.no_curves: str | None = None
        try:
            check_matplotlib()
        except ModuleNotFoundError as error:
            self.no_curves = str(error)

    def begin(self, settings: Mapping[str, Any]) -> list[str]:
        """The digests of the stories that have pages already, in order; see `story_digest`. Nothing
        is written yet.

        Args:
            settings: all that the pages depend on, as JSON data.

        Raises:
            ResumeError: the report was started with other settings, or is damaged.
        """
        done = []
        for row in _rows(self.part):
            done.append(row["digest"])
            self.count, self._last, self._next = self.count + 1, row["page"], row["next"]
        self._settings = {**_KIND, **settings}
        if done:
            # Only to check the settings: the file is opened when the report is entered.
            ResumableFile(os.path.join(self.part, LIST), self._settings, resume=True)
        return done

    def __enter__(self) -> Report:
        os.makedirs(self.part, exist_ok=True)
        if sys.platform != "win32":
            self._folder = os.open(self.part, os.O_RDONLY)
            lock(self._folder, self.part)
        if not self.count:
            # Left by a run that was interrupted before its first page was complete.
            for entry in os.scandir(self.part):
                (
                    shutil.rmtree(entry.path)
                    if entry.is_dir(follow_symlinks=False)
                    else os.unlink(entry.path)
                )
        os.makedirs(os.path.join(self.part, PAGES), exist_ok=True)
        self._list = ResumableFile(os.path.join(self.part, LIST), self._settings, resume=True)
        self._list.__enter__()
        return self

    def add(self, result: StorySalience) -> None:
        """Add a story. Its page is written when the next story is added, to which it links."""
        page = _page_name(self.count + 1 + (self._waiting is not None), result)
        self._write_waiting(page)
        self._waiting = page, result

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._end(kind, error, trace)
        finally:
            if self._folder >= 0:
                os.close(self._folder)

    def _end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Complete and publish the report, unless an error ended it."""
        try:
            if kind is None:
                self._write_waiting("")
                with AtomicFile(os.path.join(self.part, INDEX)) as file:
                    for piece in index_page(_rows(self.part), self.count, self.left_out):
                        file.write(piece)
        except BaseException as problem:
            self._list.__exit__(type(problem), problem, None)
            raise
        self._list.__exit__(kind, error, trace)
        if kind is None:
            self._publish()

    def _write_waiting(self, next_page: str) -> None:
        """Write the page that waits for the name of the next page; "" if it is the last."""
        if self._waiting is None:
            # The last page of the interrupted run links to a page that must come next.
            if self.count and self._next != next_page:
                raise ResumeError(
                    f"can't resume {self.part}: the stories differ from those it was started with;"
                    " use the same stories, or remove it"
                )
            return
        name, result = self._waiting
        with AtomicFile(os.path.join(self.part, PAGES, name)) as file:
            for piece in self._page(result, next_page):
                file.write(piece)
        (best,) = result.top(1)
        row = {
            "page": name,
            "next": next_page,
            "name": shortened(result.name, 160, both_ends=True),
            "sentences": len(result),
            "first": shortened(result.sentences[0], 90),
            "truncated": result.truncated,
            "top": shortened(best.sentence, 160),
            "digest": story_digest(result.story.id, result.sentences, result.windows),
        }
        self._list.write(json.dumps(row) + "\n")
        self.count, self._last, self._waiting = self.count + 1, name, None

    def _page(self, result: StorySalience, next_page: str) -> Iterator[str]:
        """The page of a story, in pieces."""
        links = [("../index.html", "", "all stories")]
        links += [(self._last, ' rel="prev"', "← previous")] if self._last else []
        links += [(next_page, ' rel="next"', "next →")] if next_page else []
        anchors = "".join(f'<a href="{href}"{kind}>{words}</a>' for href, kind, words in links)
        yield page_head(result.name, _STYLE) + f'<nav aria-label="Stories">{anchors}</nav>\n'
        yield section(result, self.top, level=1, between=self._curves(result))
        yield PAGE_END

    def _curves(self, result: StorySalience) -> str:
        if self.no_curves is not None:
            return f'<p class="curves">No curves: {escape(self.no_curves)}</p>\n'
        svg = render(result.plot(width=_CURVES_WIDTH, bare=True), "svg").decode("utf-8")
        label = "Curves of the scores in story order; the table below has them as numbers."
        return (
            '<div class="curves" role="img"'
            f' aria-label="{label}">{svg[svg.index("<svg") :]}</div>\n'
        )

    def _publish(self) -> None:
        """Give the folder its name. An earlier report is replaced file by file, the index last."""
        if not os.path.exists(self.path):
            os.rename(self.part, self.path)
            return
        os.makedirs(os.path.join(self.path, PAGES), exist_ok=True)
        old = [os.path.join(PAGES, row["page"]) for row in _rows(self.path)]
        data = [LIST, os.path.basename(run_path(LIST))]
        for name in (INDEX, *old, *data):
            if os.path.lexists(path := os.path.join(self.path, name)):
                os.unlink(path)
        new = [os.path.join(PAGES, row["page"]) for row in _rows(self.part)]
        for name in (*new, *data, INDEX):
            os.replace(os.path.join(self.part, name), os.path.join(self.path, name))
        os.rmdir(os.path.join(self.part, PAGES))
        os.rmdir(self.part)


def page_paths(folder: str) -> Iterator[str]:
    """The paths of the pages of the stories of a report, in order. Raises `ValueError` if the
    folder is no report."""
    if not _is_report(folder):
        raise ValueError(f"{folder} is a folder, but no report")
    yield from (os.path.join(folder, PAGES, row["page"]) for row in _rows(folder))


def _page_name(number: int, result: StorySalience) -> str:
    """The file name of a story: safe for any id, and unique on any file system because of the
    number."""
    plain = (
        unicodedata.normalize("NFKD", result.name[-200:])
        .encode("ascii", "ignore")
        .decode("ascii")
        .lower()
    )
    words = re.sub("[^a-z0-9]+", "-", plain)[-40:].strip("-") if result.story.id is not None else ""
    return f"{number:06d}{'-' * bool(words)}{words}.html"


def _is_report(folder: str) -> bool:
    settings = run_settings(os.path.join(folder, LIST)) or {}
    return _KIND.items() <= settings.items()


def _rows(folder: str) -> Iterator[dict[str, Any]]:
    """The data of the stories of a report. Raises `ResumeError` if the file is damaged."""
    path = os.path.join(folder, LIST)
    for number, line in enumerate(complete_lines(path), start=1):
        try:
            row = json.loads(line)
            pages = [row["page"], *([row["next"]] if row["next"] else [])]
            if not all(map(_PAGE.fullmatch, pages)):
                raise ValueError(f"{pages} are not names of pages")
        except (ValueError, KeyError, TypeError) as error:
            raise ResumeError(f"{path}, line {number} is not of a report ({error})") from None
        yield row


_STYLE = """nav a { display: inline-block; margin-right: 1.2rem; padding: .3rem 0; font-family: system-ui, sans-serif; }
.curves { max-width: 34rem; margin-bottom: 1rem; } .curves svg { display: block; width: 100%; height: auto; }
"""

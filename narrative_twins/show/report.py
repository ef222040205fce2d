"""A report on many stories: a folder with a page a story and an index to search and sort, which opens from disk.

index.html                 written when all pages are
stories/000001-a-name.html a page a story: its table, its curves, the way to its neighbours
report.jsonl               what the index is made of, a line a story; an interrupted run goes on from it
"""

from __future__ import annotations

import json
import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape
from types import TracebackType
from typing import Any

from narrative_twins.files import StoryKey, WholeFile, check_begun, story_key, whole_lines
from narrative_twins.plots.printable import shortened
from narrative_twins.plots.style import check_matplotlib, picture
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.html import PAGE_END, page_head, section
from narrative_twins.show.report_index import index_page

LIST, INDEX, PAGES = "report.jsonl", "index.html", "stories"

_KIND = "narrative_twins report"
_PAGE = re.compile(r"\d{6,}(-[a-z0-9-]*)?\.html")
_CURVES = 3.6
"""Inches: on a telephone the curves have their size, on a page they are half as large again."""


class Report:
    """A report, page by page as the results come. The folder appears under its name when it is whole; until then it is
    `NAME.part`, which stays where a run is interrupted. A report that was there before is replaced; files in its folder
    that are not of the report stay.

        report = Report("folder")
        done = report.begin({"operations": ["deletion"]})
        with report:
            for result in results:
                report.add(result)

    Args:
        path: the folder.
        top: show only so many sentences of each story, as in `to_table`.
        resume: go on with `NAME.part`, if it is there.

    Attributes:
        no_curves: why pages have no curves; None where they have.
        left_out: how many stories could not be scored, for the index to say; set it before the end.

    Raises:
        OSError: no folder can be made there.
        ValueError: it is there and no report, or was begun before and is not to be resumed.
    """

    def __init__(self, path: str, top: int | None = None, resume: bool = False) -> None:
        self.path, self.top, self.left_out = os.path.realpath(path), top, 0
        self.part = f"{self.path}.part"
        self.settings: Mapping[str, Any] = {}
        self.count, self.last, self.follower = 0, "", ""
        self.waiting: tuple[str, StorySalience] | None = None
        if not os.path.isdir(os.path.dirname(self.path)):
            raise FileNotFoundError(f"the folder of {path} does not exist; make it first")
        for folder in (self.path, self.part):
            if os.path.lexists(folder) and not os.path.isdir(folder):
                raise NotADirectoryError(f"{folder} is a file; a report is a folder, give it another name")
            if os.path.isdir(folder) and os.listdir(folder) and _head_of(folder) is None:
                raise ValueError(f"{folder} holds other things than a report; name a new or an empty folder")
        if not resume and (begun := len(_lines_of(self.part)[1:])):
            raise ValueError(f"{self.part} holds {begun} pages of an interrupted report; go on with it, or remove it")
        self.no_curves: str | None = None
        try:
            check_matplotlib()
        except ModuleNotFoundError as error:
            self.no_curves = str(error)

    def begin(self, settings: Mapping[str, Any]) -> Counter[StoryKey]:
        """The stories that have their pages, and how often; nothing is written yet.

        Args:
            settings: how stories are scored, as JSON has it.

        Raises:
            ValueError: the report was begun with other settings, or is broken.
        """
        self.settings, done = settings, Counter[StoryKey]()
        for row in _rows(self.part):
            done[row["key"], tuple((lo, hi) for lo, hi in row["windows"])] += 1
            self.count, self.last, self.follower = self.count + 1, row["page"], row["next"]
        if self.count:
            check_begun(self.part, (_head_of(self.part) or {})["settings"], settings)
        return done

    def __enter__(self) -> Report:
        if not self.count:
            # What a run left that was interrupted before its first page was whole.
            shutil.rmtree(self.part, ignore_errors=True)
        os.makedirs(os.path.join(self.part, PAGES), exist_ok=True)
        self._list = WholeFile(os.path.join(self.part, LIST), keep=True, resume=True)
        self._list.__enter__()
        if not self.count:
            self._list.write(json.dumps({"kind": _KIND, "settings": self.settings}) + "\n")
        return self

    def add(self, result: StorySalience) -> None:
        """Take one more story. Its page is written when the next one comes, to which it leads."""
        page = _page_name(self.count + 1 + (self.waiting is not None), result)
        self._follow(page)
        self.waiting = page, result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._follow("")
                with WholeFile(os.path.join(self.part, INDEX)) as file:
                    for piece in index_page(_rows(self.part), self.count, self.left_out):
                        file.write(piece)
        except BaseException as problem:
            self._list.__exit__(type(problem), problem, None)
            raise
        self._list.__exit__(kind, error, trace)
        if kind is None:
            self._publish()

    def _follow(self, page: str) -> None:
        """Write the page that waits for its follower, now known; "" is none."""
        if self.waiting is None:
            if self.count and self.follower != page:
                raise ValueError(
                    f"can't resume {self.part}: the stories are no longer those it was begun with; go on with the same "
                    "ones, or remove it"
                )
            return
        name, result = self.waiting
        with WholeFile(os.path.join(self.part, PAGES, name)) as file:
            for piece in self._page(result, page):
                file.write(piece)
        key, windows = story_key(result.story.id, result.sentences, result.windows)
        (best,) = result.top(1)
        row = {
            "page": name,
            "next": page,
            "name": shortened(result.name, 160, both_ends=True),
            "sentences": len(result),
            "first": shortened(result.sentences[0], 90),
            "truncated": result.truncated,
            "top": shortened(best.sentence, 160),
            "key": key,
            "windows": windows,
        }
        self._list.write(json.dumps(row) + "\n")
        self.count, self.last, self.waiting = self.count + 1, name, None

    def _page(self, result: StorySalience, follower: str) -> Iterator[str]:
        """The page of a story, in pieces."""
        ways = [("../index.html", "", "all stories")]
        ways += [(self.last, ' rel="prev"', "← previous")] if self.last else []
        ways += [(follower, ' rel="next"', "next →")] if follower else []
        links = "".join(f'<a href="{href}"{kind}>{words}</a>' for href, kind, words in ways)
        yield page_head(result.name, _STYLE) + f'<nav aria-label="Stories">{links}</nav>\n'
        yield section(result, self.top, level=1, between=self._curves(result))
        yield PAGE_END

    def _curves(self, result: StorySalience) -> str:
        if self.no_curves is not None:
            return f'<p class="curves">No curves: {escape(self.no_curves)}</p>\n'
        drawn = picture(result.plot(width=_CURVES, bare=True), "svg").decode("utf-8")
        says = "Curves of the scores in story order; the table below has them as numbers."
        return f'<div class="curves" role="img" aria-label="{says}">{drawn[drawn.index("<svg") :]}</div>\n'

    def _publish(self) -> None:
        """Give the folder its name; the index comes last."""
        if not os.path.exists(self.path):
            os.rename(self.part, self.path)
            return
        os.makedirs(os.path.join(self.path, PAGES), exist_ok=True)
        old = [os.path.join(PAGES, row["page"]) for row in _rows(self.path)]
        for name in (INDEX, *old, LIST):
            if os.path.lexists(path := os.path.join(self.path, name)):
                os.unlink(path)
        new = [os.path.join(PAGES, row["page"]) for row in _rows(self.part)]
        for name in (*new, LIST, INDEX):
            os.replace(os.path.join(self.part, name), os.path.join(self.path, name))
        os.rmdir(os.path.join(self.part, PAGES))
        os.rmdir(self.part)


def _page_name(number: int, result: StorySalience) -> str:
    """The file of a story: safe whatever its id is, and no other's on any file system, since the number is its own."""
    plain = unicodedata.normalize("NFKD", result.name[-200:]).encode("ascii", "ignore").decode("ascii").lower()
    words = re.sub("[^a-z0-9]+", "-", plain)[-40:].strip("-") if result.story.id is not None else ""
    return f"{number:06d}{'-' * bool(words)}{words}.html"


def _lines_of(folder: str) -> list[str]:
    return whole_lines(os.path.join(folder, LIST))


def _head_of(folder: str) -> dict[str, Any] | None:
    """How a report was begun, or None where there is none."""
    try:
        head: dict[str, Any] = json.loads(_lines_of(folder)[0])
        return head if head["kind"] == _KIND else None
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _rows(folder: str) -> Iterator[dict[str, Any]]:
    """What a report knows of its stories.

    Raises:
        ValueError: someone has changed it.
    """
    for number, line in enumerate(_lines_of(folder)[1:], start=2):
        try:
            row = json.loads(line)
            pages = [row["page"], *([row["next"]] if row["next"] else [])]
            if not all(map(_PAGE.fullmatch, pages)):
                raise ValueError(f"{pages} are no pages")
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{os.path.join(folder, LIST)}, line {number} is not of a report ({error})") from None
        yield row


_STYLE = """nav a { display: inline-block; margin-right: 1.2rem; padding: .3rem 0; font-family: system-ui, sans-serif; }
.curves { max-width: 34rem; margin-bottom: 1rem; } .curves svg { display: block; width: 100%; height: auto; }
"""

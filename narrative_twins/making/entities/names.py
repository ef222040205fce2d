"""Given names with counts: the gender that a name indicates, and names drawn by frequency."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

Gender: TypeAlias = Literal["f", "m"]

_GENDERS: dict[str, Gender] = {"f": "f", "female": "f", "m": "m", "male": "m"}
_COLUMNS = ["name", "gender", "count"]
_MAX_NAME = 100  # characters; a longer cell is an open quotation mark, or not a list of names
# Mostly the first draw is free; after this many draws the free names are listed instead.
_DRAWS = 20


class GivenNames:
    """A list of given names to draw from.

    Args:
        counts: number of people by name and gender; a name may have both. A name with a count of 0
            indicates a gender, but is never drawn.
    """

    def __init__(self, counts: Mapping[tuple[str, Gender], int]) -> None:
        self._by_gender: dict[Gender | None, Counter[str]] = {
            "f": Counter(),
            "m": Counter(),
            None: Counter(),
        }
        self._gender_counts: dict[str, Counter[Gender]] = {}
        for (name, gender), count in counts.items():
            self._gender_counts.setdefault(name.casefold(), Counter())[gender] += count
            if count:
                self._by_gender[gender][name] += count
                self._by_gender[None][name] += count
        self._sums = {
            gender: list(accumulate(names.values())) for gender, names in self._by_gender.items()
        }
        self._lists = {gender: list(names) for gender, names in self._by_gender.items()}

    def gender_of(self, name: str) -> Gender | None:
        """The gender of most people with a name; None if the list lacks it, or both are equally
        frequent."""
        counts: Counter[Gender] = self._gender_counts.get(name.casefold(), Counter())
        if len(counts) == 1:
            return next(iter(counts))
        if counts["f"] == counts["m"]:
            return None
        return "f" if counts["f"] > counts["m"] else "m"

    def __contains__(self, name: str) -> bool:
        """Whether the list has a name, also if its count is 0."""
        return name.casefold() in self._gender_counts

    def draw(self, random: Random, gender: Gender | None, taken: Iterable[str] = ()) -> str:
        """Draw a name of a gender (None for any) by its count, without the case-folded words in
        `taken`.

        Raises:
            ValueError: all names are taken.
        """
        taken = set(taken)
        names, sums = self._lists[gender], self._sums[gender]
        for _ in range(_DRAWS if names else 0):
            (name,) = random.choices(names, cum_weights=sums)
            if taken.isdisjoint(name.casefold().split()):
                return name
        free = [name for name in names if taken.isdisjoint(name.casefold().split())]
        if not free:
            people = {"f": "women", "m": "men", None: "people"}[gender]
            raise ValueError(
                f"the list has no name left for {people}; use a longer list (name,gender,count)"
            )
        (name,) = random.choices(free, [self._by_gender[gender][name] for name in free])
        return name


def read_names(path: str | None = None) -> GivenNames:
    """Read a CSV file of names; None is the package's own list of common English names.

    The columns are `name,gender,count`, with or without this header; the gender is `f` or `m`.
    Lines that begin with `#` are comments; counts of the same name and gender are added up.

    Raises:
        OSError, ValueError: the file can't be read, or a line is invalid.
    """
    counts: Counter[tuple[str, Gender]] = Counter()
    source = Path(__file__).with_name("names.csv") if path is None else Path(path)
    try:
        with open(source, encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            for row in rows:
                if not "".join(row).strip() or row[0].startswith("#") or row == _COLUMNS:
                    continue
                name, gender, count = _entry(row, f"{source}, line {rows.line_num}")
                counts[name, gender] += count
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{source} can't be read as CSV in UTF-8 ({error}); convert it") from None
    if not counts.total():
        raise ValueError(
            f"{source} has no name to draw; add lines of name,gender,count such as Mary,f,400"
        )
    return GivenNames(counts)


def _entry(row: list[str], where: str) -> tuple[str, Gender, int]:
    cells = [" ".join(cell.split()) for cell in row]
    if len(cells) != len(_COLUMNS) or not cells[0]:
        raise ValueError(
            f"{where}: {','.join(row)!r:.100} is not name,gender,count, such as Mary,f,400"
        )
    name, gender, count = cells
    if len(name) > _MAX_NAME:
        raise ValueError(
            f"{where}: a name of {len(name):,} characters; at most {_MAX_NAME} are read"
        )
    if gender.lower() not in _GENDERS:
        raise ValueError(f"{where}: the gender {gender!r} is neither f nor m")
    if not (count.isascii() and count.isdecimal()):
        raise ValueError(f"{where}: the count {count!r} is not an integer of 0 or more")
    return name, _GENDERS[gender.lower()], int(count)

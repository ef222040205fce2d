"""Given names with counts: what gender a name tells, and names drawn as often as people have them."""

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
# Mostly the first draw is free; after so many it is better to look which names are left.
_TRIES = 20


class GivenNames:
    """A list of given names to draw from.

    Args:
        counts: how many people have a name, by name and gender. A name may be there for both. A name with a count of 0
            tells the gender of who has it and is never drawn.
    """

    def __init__(self, counts: Mapping[tuple[str, Gender], int]) -> None:
        self._by_gender: dict[Gender | None, Counter[str]] = {"f": Counter(), "m": Counter(), None: Counter()}
        self._told: dict[str, Counter[Gender]] = {}
        for (name, gender), count in counts.items():
            self._told.setdefault(name.casefold(), Counter())[gender] += count
            if count:
                self._by_gender[gender][name] += count
                self._by_gender[None][name] += count
        self._sums = {gender: list(accumulate(names.values())) for gender, names in self._by_gender.items()}
        self._lists = {gender: list(names) for gender, names in self._by_gender.items()}

    def gender_of(self, name: str) -> Gender | None:
        """The gender that most people of a name have; None if the list does not know it, or it is as much of one as
        of the other."""
        told: Counter[Gender] = self._told.get(name.casefold(), Counter())
        if len(told) == 1:
            return next(iter(told))
        if told["f"] == told["m"]:
            return None
        return "f" if told["f"] > told["m"] else "m"

    def __contains__(self, name: str) -> bool:
        """Whether the list has a name, drawn or not."""
        return name.casefold() in self._told

    def draw(self, random: Random, gender: Gender | None, taken: Iterable[str] = ()) -> str:
        """A name, drawn by the counts.

        Args:
            random: what draws.
            gender: of whom it is for; None draws from all names.
            taken: words in lower case (`str.casefold`) that the name must not have.

        Raises:
            ValueError: all names are taken.
        """
        taken = set(taken)
        names, sums = self._lists[gender], self._sums[gender]
        for _ in range(_TRIES if names else 0):
            (name,) = random.choices(names, cum_weights=sums)
            if taken.isdisjoint(name.casefold().split()):
                return name
        left = [name for name in names if taken.isdisjoint(name.casefold().split())]
        if not left:
            whose = {"f": "women", "m": "men", None: "people"}[gender]
            raise ValueError(f"the list has no name left for {whose}; give a longer one (name,gender,count)")
        (name,) = random.choices(left, [self._by_gender[gender][name] for name in left])
        return name


def read_names(path: str | None = None) -> GivenNames:
    """A list of names in CSV: `name,gender,count`, with or without that line at the top; the gender is `f` or `m`.
    Lines that begin with `#` are notes; counts of a name that is there several times are added up.

    Args:
        path: the file; None is the package's own list of common English names.

    Raises:
        OSError: the file can't be read.
        ValueError: a line is wrong; says which, and what is needed.
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
        raise ValueError(f"{source} can't be read as CSV in UTF-8 ({error}); save it so") from None
    if not counts.total():
        raise ValueError(f"{source} has no name to draw; give lines of name,gender,count such as Mary,f,400")
    return GivenNames(counts)


def _entry(row: list[str], where: str) -> tuple[str, Gender, int]:
    """Name, gender and count of a line."""
    cells = [" ".join(cell.split()) for cell in row]
    if len(cells) != len(_COLUMNS) or not cells[0]:
        raise ValueError(f"{where}: {','.join(row)!r} is not name,gender,count, such as Mary,f,400")
    name, gender, count = cells
    if gender.lower() not in _GENDERS:
        raise ValueError(f"{where}: the gender {gender!r} is neither f nor m")
    if not (count.isascii() and count.isdecimal()):
        raise ValueError(f"{where}: the count {count!r} is no whole number of 0 or more")
    return name, _GENDERS[gender.lower()], int(count)

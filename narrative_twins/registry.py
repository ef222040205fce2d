"""A registry of scorers by name: operations and baselines."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Generic, Protocol, TypeVar


class Named(Protocol):
    """An object with a name, which is the key of its scores."""

    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=Named)


class Registry(dict[str, Item], Generic[Item]):
    """Instances of the subclasses of a class by name, in display order.

    Args:
        base: the class.
        kind: what an instance is called in messages, with its article: `"an operation"`.
    """

    def __init__(self, base: type, kind: str) -> None:
        super().__init__()
        self.base: Any = base
        self.kind = kind
        self.noun = kind.split(" ", 1)[1]

    def add(self, subclass: type[Item]) -> None:
        """Register an instance of a class, made without arguments, under its `name`. A class
        defined again, as in a notebook, replaces itself; a different class with the same name
        raises a `ValueError`."""
        item = subclass()
        known = self.get(item.name)
        if known is not None and type(known).__qualname__ != subclass.__qualname__:
            raise ValueError(
                f"{self.noun} {item.name!r} exists already ({type(known).__qualname__}); use"
                " another name"
            )
        self[item.name] = item

    def resolve(self, items: str | Item | Iterable[str | Item] | None = None) -> list[Item]:
        """Look up names, alone or several, and keep instances; None means all that are
        registered.

        Raises:
            TypeError: an item is neither a name nor an instance.
            ValueError: a name is unknown, nothing is given, or two different instances have the
                same name.
        """
        given: Iterable[Any]
        if items is None:
            given = list(self.values())
        elif isinstance(items, (str, self.base)) or not isinstance(items, Iterable):
            given = [items]
        else:
            given = items
        chosen: dict[str, Item] = {}
        for item in given:
            if isinstance(item, str):
                item = self._look_up(item)
            if not isinstance(item, self.base):
                raise TypeError(
                    f"{self.kind} is a name or an instance of {self.base.__name__}, not"
                    f" {item!r:.60}"
                )
            if chosen.setdefault(item.name, item) is not item:
                raise ValueError(
                    f"two different instances have the name {item.name!r}, under which results have"
                    " their scores; use one of them"
                )
        if not chosen:
            raise ValueError(f"no {self.noun} given; choose from {', '.join(self)}")
        return list(chosen.values())

    def _look_up(self, name: str) -> Item:
        if name in self:
            return self[name]
        close = get_close_matches(name, self, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"unknown {self.noun} {name!r}; choose from {', '.join(self)}{hint}")

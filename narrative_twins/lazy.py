"""Names of a package that are imported when they are used, since their modules import large
libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, names: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """A function that can be the `__getattr__` of a package.

    Args:
        package: the name of the package.
        names: by module, relative to the package, the names to import from it.
    """
    module_of = {name: module for module, found in names.items() for name in found}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return find

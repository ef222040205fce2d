"""Code that is not part of this package: the libraries of its extras, which are checked so that an
error says what to install, and modules of users."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement


def check_extra(extra: str) -> None:
    """Raise an `ImportError` if a library of an extra of this package, `"plot"` for example, is
    missing or too old. The error has the `pip install` command."""
    missing, old = [], []
    for requirement in map(Requirement, requires("narrative_twins") or ()):
        marker = requirement.marker
        if (
            marker is None
            or marker.evaluate({"extra": ""})
            or not marker.evaluate({"extra": extra})
        ):
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            missing.append(requirement.name)
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            old.append(f"{requirement.name} must be {requirement.specifier} but is {installed}")
    if missing or old:
        problems = [f"not installed: {', '.join(missing)}"] * bool(missing) + old
        raise ImportError(
            f"this needs pip install 'narrative_twins[{extra}]' ({'; '.join(problems)})"
        )


def user_module(name: str) -> Any:
    """Import and return a module of the user, or raise an `ImportError`. `name` is the name of a
    module, also of one in the working folder, or the path of a `.py` file. The folder of the module
    is appended to `sys.path`, so that new processes find the module."""
    file = Path(name).resolve() if name.endswith(".py") else None
    if (folder := str(file.parent if file else Path.cwd())) not in sys.path:
        sys.path.append(folder)
    try:
        module = import_module(file.stem if file else name)
        if file is None or Path(module.__file__ or "").resolve() == file:
            return module
        problem, cause = f"{module.__file__} has its name; rename the file", None
    except Exception as error:
        problem, cause = f"{type(error).__name__}: {error}; correct the module or its name", error
    raise ImportError(f"{name} can't be imported: {problem}") from cause

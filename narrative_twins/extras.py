"""Check of the libraries of an extra of this package, so that a missing or old one is an error that
says what to install."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement


def check_extra(extra: str) -> None:
    """Raise an ImportError that says what to install, if a library of an extra is missing or older
    than required."""
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
            found = version(requirement.name)
        except PackageNotFoundError:
            missing.append(requirement.name)
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            old.append(f"{requirement.name} must be {requirement.specifier} but is {found}")
    if missing or old:
        problems = [f"not installed: {', '.join(missing)}"] * bool(missing) + old
        raise ImportError(
            f"this needs pip install 'narrative_twins[{extra}]' ({'; '.join(problems)})"
        )

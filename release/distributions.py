"""Build the distributions of the package for a package index: `make dist
REPOSITORY=https://github.com/USER/NAME`.

An index shows README.md without the files next to it. In the distributions its relative links and
pictures therefore lead to the public repository, as it is at the tag of the version, and the
metadata have the addresses of the project.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
SOURCES = (
    ".ci",
    ".github",
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "benchmarks",
    "docs",
    "examples",
    "hub_cards",
    "mkdocs.yml",
    "narrative_twins",
    "pyproject.toml",
    "release",
    "setup.cfg",
    "skills",
    "tests",
)
"""The files and folders of the repository, without `research`: who repeats it clones the
repository."""

_MADE = shutil.ignore_patterns("__pycache__", "*.py[cod]", ".*_cache")
_FENCED = re.compile(r"(^```.*?^```$)", re.S | re.M)
_PICTURE = r"!\[[^\[\]]*\]\([^()]*\)"
_LINK = re.compile(
    rf"(?P<picture>!?)\[(?P<text>(?:[^\[\]]|{_PICTURE})*)\]\((?P<target>[^()\s]+)(?P<title>[^()]*)\)"
)
_BUILD = """import sys
from setuptools import build_meta
out = sys.argv[1]  # building changes it
build_meta.build_sdist(out)
build_meta.build_wheel(out)
"""


def checked_repository(address: str) -> str:
    """The address of a public repository, without `/` and `.git` at its end. Raises `ValueError` if
    it is none."""
    parts = urlsplit(address)
    path = parts.path.rstrip("/").removesuffix(".git")
    plain = not (parts.query or parts.fragment or parts.username)
    if (
        parts.scheme != "https"
        or not parts.hostname
        or not re.fullmatch(r"/[\w.-]+/[\w.-]+", path)
        or not plain
    ):
        raise ValueError(
            f"{address!r} is not the address of a repository, such as https://github.com/USER/NAME"
        )
    return f"https://{parts.netloc}{path}"


def with_public_links(text: str, repository: str, tag: str) -> str:
    """Markdown whose relative links and pictures lead to a tag of a repository on GitHub.

    Absolute links, anchors within the text and blocks of code stay as they are.

    Args:
        text: the file in the top folder of the repository. Links are inline, `[text](target)`.
        repository: the address of the repository, as of `checked_repository`.
        tag: the tag, for example `v0.1.0`.
    """

    def public(found: re.Match[str]) -> str:
        picture, title = found["picture"], found["title"]
        inside, target = _LINK.sub(public, found["text"]), found["target"]
        if not re.match(r"[a-zA-Z][\w+.-]*:|//|#", target):
            target = (
                f"{repository}/{'raw' if picture else 'blob'}/{tag}/{target.removeprefix('./')}"
            )
        return f"{picture}[{inside}]({target}{title})"

    parts = _FENCED.split(text)
    return "".join(
        part if number % 2 else _LINK.sub(public, part) for number, part in enumerate(parts)
    )


def with_addresses(settings: str, repository: str, tag: str) -> str:
    """The text of setup.cfg with the addresses of the project. Raises `ValueError` if it has some
    already."""
    if re.search(r"^project_urls\b", settings, re.M) or settings.count("[metadata]\n") != 1:
        raise ValueError(
            "setup.cfg needs one section [metadata], without project_urls: they are added here"
        )
    addresses = {
        "Source": repository,
        "Documentation": f"{repository}/tree/{tag}/docs",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    lines = "".join(f"    {name} = {address}\n" for name, address in addresses.items())
    return settings.replace("[metadata]\n", f"[metadata]\nproject_urls =\n{lines}")


def version_of(root: Path) -> str:
    """The version that the package has. Raises `ValueError` if it is not found."""
    found = re.search(
        r'^__version__ = "([^"]+)"$',
        (root / "narrative_twins" / "__init__.py").read_text("utf-8"),
        re.M,
    )
    if found is None:
        raise ValueError("narrative_twins/__init__.py has no line __version__ = ...")
    return found[1]


def copy_sources(root: Path, target: Path) -> Path:
    """Copy `SOURCES` of a folder into a new one, without what Python and the tools of developers
    keep next to them."""
    target.mkdir(parents=True)
    for name in SOURCES:
        if (root / name).is_dir():
            shutil.copytree(root / name, target / name, ignore=_MADE)
        else:
            shutil.copy(root / name, target / name)
    return target


def build(root: Path, out: Path, repository: str) -> list[Path]:
    """Build the source distribution and the wheel from a copy of the repository; no network is
    used.

    Args:
        root: the folder of the repository, which is not changed.
        out: the folder for the two files; those of the same names are replaced.
        repository: the public address of the repository.

    Returns:
        The two files.

    Raises:
        ValueError: the address is none of a repository.
        subprocess.CalledProcessError: the package can't be built; the reason is printed.
    """
    repository, tag = checked_repository(repository), f"v{version_of(root)}"
    with tempfile.TemporaryDirectory() as scratch:
        source, made = copy_sources(root, Path(scratch) / "source"), Path(scratch) / "made"
        for name, changed in (("README.md", with_public_links), ("setup.cfg", with_addresses)):
            text = (source / name).read_text("utf-8")
            (source / name).write_text(changed(text, repository, tag), "utf-8")
        made.mkdir()
        subprocess.run(
            [sys.executable, "-c", _BUILD, made], cwd=source, check=True, stdout=subprocess.DEVNULL
        )
        out.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(path, out)) for path in sorted(made.iterdir())]


def main(arguments: list[str] | None = None) -> int:
    """Build the distributions into a folder, and name them."""
    parser = argparse.ArgumentParser(description="build the source distribution and the wheel")
    parser.add_argument(
        "repository", help="the public address of the repository: https://github.com/USER/NAME"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="the folder for the files (default: dist)"
    )
    options = parser.parse_args(arguments)
    try:
        for path in build(ROOT, options.out, options.repository):
            print(path)
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())

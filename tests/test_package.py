"""The installed package: built as a wheel, installed into another folder, and used from there."""

from __future__ import annotations

import os
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from distributions import SOURCES, copy_sources
from support.processes import run_python

ROOT = Path(__file__).parent.parent

QUICK_START = """
import socket

def no_network(*arguments, **options):
    raise AssertionError("the network was used")

socket.socket.connect = socket.getaddrinfo = socket.create_connection = no_network

import sys

import narrative_twins
new = {name.split(".")[0] for name in sys.modules}
heavy = new & {"torch", "transformers", "huggingface_hub", "numpy", "scipy", "accelerate", "yaml", "tqdm"}
assert not heavy, heavy

from transformers import pipeline
import transformers.pipelines
before = set(sys.modules)
import narrative_twins.commands.score
new = {name.split(".")[0] for name in set(sys.modules) - before}
heavy = new & {"sentence_transformers", "datasets", "pyarrow", "pandas", "sklearn", "evaluate", "matplotlib"}
assert not heavy, heavy
assert "scipy.stats" not in set(sys.modules) - before

salience = pipeline("narrative-salience")
result = salience("Omar cleaned a window. A man cried. Omar wrote a word.")
print(narrative_twins.__file__, len(result["scores"]["deletion"]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    # Built from a copy, since files in a `build` folder of an earlier build would be included.
    folder = tmp_path_factory.mktemp("wheel")
    source = copy_sources(ROOT, folder / "source")
    command = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", folder]
    command += [source]
    run_python(*command)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """The folder of the unpacked source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    source = copy_sources(ROOT, folder / "source")
    run_python(
        "-c",
        f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})",
        cwd=source,
    )
    (path,) = folder.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (top,) = (folder / "unpacked").iterdir()
    return top


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def is_of_the_repository(name: str) -> bool:
    """Whether a name in the top folder is none of git, of a source distribution, or in
    `.gitignore`."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    return name not in (".git", "PKG-INFO") and not any(
        fnmatch(name, line.strip("/")) for line in lines
    )


@pytest.mark.slow
def test_the_source_distribution_has_all_files_of_the_repository(unpacked, tmp_path):
    assert set(filter(is_of_the_repository, os.listdir(ROOT))) == set(SOURCES), (
        "SOURCES, MANIFEST.in: new names"
    )
    expected = files_in(copy_sources(ROOT, tmp_path / "tree"))
    added = {
        name for name in files_in(unpacked) if name.startswith("narrative_twins.egg-info/")
    } | {"PKG-INFO"}
    assert files_in(unpacked) - added == expected


@pytest.mark.slow
def test_contents_of_the_wheel(wheel):
    """All modules and data of the package and its templates of cards, and nothing else."""
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    package = {name for name in names if name.startswith("narrative_twins/")}
    expected = {
        name for name in files_in(copy_sources(ROOT, wheel.parent / "tree") / "narrative_twins")
    } | {f"hub_cards/{name}" for name in files_in(ROOT / "hub_cards") if "__pycache__" not in name}
    assert package == {f"narrative_twins/{name}" for name in expected}


@pytest.mark.slow
def test_the_quick_start_from_an_installed_package(wheel, tmp_path):
    """Importing uses no network and adds no heavy imports; the default encoder needs no network
    either."""
    target = tmp_path / "site"
    options = ["--no-deps", "--no-index", "--quiet", "--target", target]
    run_python("-m", "pip", "install", *options, wheel)
    environment = os.environ | {"PYTHONPATH": str(target), "HF_HUB_OFFLINE": "1"}
    out = run_python("-c", QUICK_START, cwd=tmp_path, env=environment)
    assert out.split() == [str(target / "narrative_twins" / "__init__.py"), "3"]

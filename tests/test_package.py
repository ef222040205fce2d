"""The installed package: built as a wheel, installed into another folder, and used from there."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

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
    folder, source = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("source")
    for part in ("narrative_twins", "hub_cards"):
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, source)
    command = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", folder]
    command += [source]
    run_python(*command)
    (path,) = folder.glob("*.whl")
    return path


def test_contents_of_the_wheel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "narrative_twins/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"narrative_twins"}
    kinds = (".py", ".parquet", ".json", ".md", ".safetensors", ".csv", ".txt", ".css")
    inside = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "narrative_twins").rglob("*") if path.suffix in kinds
    }
    assert "narrative_twins/encoder/default/model.safetensors" in inside
    assert {"narrative_twins/making/twins/prompts/expand.txt", "narrative_twins/making/entities/names.csv"} <= inside
    templates = {f"narrative_twins/hub_cards/{path.name}" for path in (ROOT / "hub_cards").iterdir() if path.is_file()}
    assert {"narrative_twins/hub_cards/model_card.md", "narrative_twins/hub_cards/narrative_salience.py"} <= templates
    assert {
        name for name in names if name.endswith((*kinds, ".yaml")) and "dist-info" not in name
    } == inside | templates


def test_the_quick_start_from_an_installed_package(wheel, tmp_path):
    """Importing uses no network and adds no heavy imports; the default encoder needs no network either."""
    target = tmp_path / "site"
    command = ["-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", target, wheel]
    run_python(*command)
    environment = os.environ | {"PYTHONPATH": str(target), "HF_HUB_OFFLINE": "1"}
    out = run_python("-c", QUICK_START, cwd=tmp_path, env=environment)
    assert out.split() == [str(target / "narrative_twins" / "__init__.py"), "3"]

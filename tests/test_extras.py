"""Libraries of an extra that are missing or old are an error that says what to install."""

import json
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from narrative_twins import extras

from support.processes import run_command

ROOT = Path(__file__).parent.parent


def test_all_that_is_missing_or_old_is_named(monkeypatch):
    extras.check_extra("train")
    versions = {"datasets": None, "sentence-transformers": None, "transformers": "5.0.0"}

    def version(name):
        if (found := versions.get(name, "1000")) is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(extras, "version", version)
    missing = r"narrative_twins\[train\]' \(not installed: sentence-transformers, datasets; "
    with pytest.raises(ImportError, match=f"{missing}transformers must be >=5.18 but is 5.0.0"):
        extras.check_extra("train")
    extras.check_extra("plot")
    versions = {"transformers": "5.19.0.dev0"}
    extras.check_extra("train")


SCORING_ALONE = """
import importlib.metadata, json, sys
gone, commands, version = *map(json.loads, sys.argv[1:3]), importlib.metadata.version
for name, module in gone.items():
    sys.modules[module] = None

def found(name):
    if name in gone:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)

importlib.metadata.version = found
from narrative_twins.commands.cli import main
for command in commands:
    sys.stderr.flush()
    print("$", command, file=sys.stderr)
    print(main(command.split()), file=sys.stderr)
"""
"""Runs commands as if some libraries, names with modules, were missing."""


@pytest.mark.slow
def test_commands_of_the_readme_run_with_what_scoring_needs_or_name_the_extra(tmp_path):
    """At the first line of what they print, before anything is loaded."""
    needs = {
        "score window_cleaner.txt": None,
        "score window_cleaner.txt --format html --out demo.html": None,
        "score window_cleaner.txt --out demo.png": "plot",
        "score window_cleaner.txt --out scores.jsonl": None,
        "score book.pdf": "books",
        "score rows.parquet": "train",
        "show scores.jsonl --out scores.csv": None,
        "book book.txt": None,
        **{f"book book.{suffix}": "books" for suffix in ("md", "epub", "docx", "html")},
        "extract book.epub --share 10%": "books",
        "extract book.txt --share 10%": None,
        "corpus window_cleaner.txt --out shards": "train",
        "evaluate stories": "train",
        "push x --to a/b": "train",
        "make twins rows.jsonl --server http://x/v1 --model m --out x.jsonl": "train",
        "app": "demo",
    }
    readme = (ROOT / "README.md").read_text("utf-8")
    named = set(re.findall(r"narrative-twins ([a-z]+)", readme))
    assert named <= {command.split()[0] for command in needs}
    shutil.copy(ROOT / "examples" / "stories" / "window_cleaner.txt", tmp_path)
    for suffix in ("txt", "md", "epub", "docx", "html", "pdf"):
        (tmp_path / f"book.{suffix}").write_text("Chapter 1\n\nNadia ran. It rained.")
    names = "pyarrow datasets sentence-transformers matplotlib lxml pypdf gradio".split()
    modules = {name: name.replace("-", "_") for name in names} | {"markdown-it-py": "markdown_it"}
    arguments = [json.dumps(modules), json.dumps(list(needs))]
    done = run_command(sys.executable, "-c", SCORING_ALONE, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *parts = done.stderr.split("$ ")
    for part, (command, extra) in zip(parts, needs.items(), strict=True):
        name, *lines, code = part.splitlines()
        assert name == command and code == str(int(extra is not None)), part
        assert extra is None or f"pip install 'narrative_twins[{extra}]'" in lines[0], part


@pytest.mark.parametrize(
    ("file", "extras_"), [("lowest_scoring.txt", [""]), ("lowest.txt", ["", "train"])]
)
def test_the_lowest_versions_that_are_tested_are_those_required(file, extras_):
    lines = (Path(__file__).parent / file).read_text().splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    tested = {name: Version(version) for name, version in pairs}
    floors: dict[str, Version] = {}
    for requirement in map(Requirement, metadata.requires("narrative_twins")):
        marker = requirement.marker
        if marker is None or any(extra and marker.evaluate({"extra": extra}) for extra in extras_):
            bounds = [Version(b.version) for b in requirement.specifier if b.operator == ">="]
            floors[requirement.name] = max(*bounds, floors.get(requirement.name, bounds[0]))
    floors.pop("torch")  # the Makefile has it
    assert floors.items() <= tested.items()


def test_what_must_be_compiled_is_installed_on_request_and_on_linux_only():
    needed = map(Requirement, metadata.requires("narrative_twins"))
    (flash,) = [each for each in needed if re.search("flash|kernels", each.name)]
    for system in ("linux", "darwin", "win32"):
        markers = [{"sys_platform": system, "extra": extra} for extra in ("flash", "train")]
        assert [*map(flash.marker.evaluate, markers)] == [system == "linux", False]

"""The documentation: README examples run and print what the README shows, public names have docstrings."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType
from unittest.mock import patch

import pytest

import narrative_twins

from support.hub import Hub, running
from support.recognizers import save_pipeline

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.S | re.M)
PYTHON = [code for language, code in BLOCKS if language == "python"]
SHELL = "".join(code for language, code in BLOCKS if language == "console")
CONSOLE = [line[2:] for line in SHELL.splitlines() if line.startswith("$ ")]


SCORE = re.compile(r"(?:★ |  )?-?\b\d\.\d{3}\b(?: [▁▂▃▄▅▆▇█])?")


def assert_shown(printed: str, shown: str) -> None:
    """Compare printed with documented output; the last digits of scores may differ, as they depend on the machine."""
    (text, scores), (expected_text, expected) = (
        (
            [SCORE.sub("score", line).rstrip() for line in output.rstrip().splitlines()],
            [float(found.strip("★ ▁▂▃▄▅▆▇█")) for found in SCORE.findall(output)],
        )
        for output in (printed, shown)
    )
    assert text == expected_text
    assert scores == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_readme_python_runs(number, tmp_path, monkeypatch):
    """Run each block separately; if a text block follows, it is the expected output."""
    monkeypatch.chdir(tmp_path)
    code = PYTHON[number]
    printed = io.StringIO()
    # Operations that a block registers are removed afterwards.
    with contextlib.redirect_stdout(printed), patch.dict(narrative_twins.OPERATIONS):
        exec(compile(code, f"README block {number}", "exec"), {"__name__": "readme"})
    after = README[README.index(code) + len(code) :]
    expected = re.match(r"```\n+```text\n(.*?)```", after, re.S)
    assert bool(expected) == bool(printed.getvalue()), "output must be shown in a text block"
    if expected:
        assert_shown(printed.getvalue(), expected[1])


@pytest.mark.parametrize("line", [line for line in CONSOLE if "narrative-twins " in line])
def test_readme_commands_run(line, tmp_path, bert_folder):
    if " make entities " in line:
        save_pipeline(tmp_path / "my_pipeline")
    command = line.replace("narrative-twins", str(Path(sys.executable).with_name("narrative-twins")))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "story.txt").write_text("Omar cleaned a window. A man cried. Omar wrote a word.")
    tellings = [[f"{n}. {words}" for n in range(1, 25)] for words in ("Nadia ran.", "She went quickly.")]
    (tmp_path / "works.jsonl").write_text(json.dumps({"id": "W", "story": tellings[0], "twins": tellings[1:]}) + "\n")
    (tmp_path / "stories.jsonl").write_text('{"text": "Nadia ran. It rained."}\n')
    (tmp_path / "twins.jsonl").write_text('{"story": ["Anna ran to Moscow."], "twin": ["Anna fled."]}\n')
    shutil.copytree(bert_folder, tmp_path / "runs" / "roc" / "final")
    with running(Hub("secret")) as hub:
        hub_settings = {"HF_ENDPOINT": hub.address, "HF_TOKEN": "secret", "HF_HUB_DISABLE_XET": "1"}
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=os.environ | (hub_settings | {"HF_HUB_OFFLINE": "0"} if " push " in line else {}),
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr


def test_the_table_in_the_readme_is_that_of_the_command():
    shown = re.search(r"\$ narrative-twins (score [^\n]*)\n```\n+```text\n(.*?)```", README, re.S)
    command = [str(Path(sys.executable).with_name("narrative-twins")), *shown[1].split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert_shown(done.stdout, shown[2])


def test_make_targets_named_in_the_readme_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"`make (\w+)", README)) | {line.split()[1] for line in CONSOLE if line.startswith("make ")}
    assert named and named <= targets


ROOMS = sorted({path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "narrative_twins").glob("*/__init__.py")})


def public_names():
    for name in narrative_twins.__all__:
        yield name, getattr(narrative_twins, name)
    for room in ROOMS:
        for name, value in vars(import_module(room.replace("/", "."))).items():
            if not name.startswith("_") and inspect.isroutine(value) or inspect.isclass(value):
                yield f"{room}.{name}", value


def public_members():
    for name, value in public_names():
        yield name, value
        if inspect.isclass(value):
            for attribute, member in vars(value).items():
                kinds = (classmethod, property, FunctionType)
                if not attribute.startswith("_") and isinstance(member, kinds):
                    yield f"{name}.{attribute}", member
        elif inspect.ismodule(value):
            for attribute, member in vars(value).items():
                if not attribute.startswith("_") and getattr(member, "__module__", None) == value.__name__:
                    yield f"{name}.{attribute}", member


@pytest.mark.parametrize(
    ("name", "member"), list(public_members()), ids=lambda value: value if type(value) is str else ""
)
def test_public_names_are_documented(name, member):
    if name != "OPERATIONS":
        assert inspect.getdoc(member), name
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    if inspect.isfunction(function):
        assert "return" in function.__annotations__, f"{name} has no return annotation"


def test_all_is_sorted_and_unknown_names_raise():
    assert narrative_twins.__all__ == sorted(narrative_twins.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        narrative_twins.nothing  # noqa: B018


def test_the_changelog_and_the_citation_have_the_version():
    assert f"## {narrative_twins.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {narrative_twins.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_the_readme_has_the_tables_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import tables

    for table in tables.all_tables():
        assert "\n".join(table) in README

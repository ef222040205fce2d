"""The command line itself: help, mistakes, exit codes, and what is imported."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest

from narrative_twins.commands.cli import DATA, MAKE, command_line

from support.command import run
from support.processes import run_command, run_python

COMMANDS = [
    *([name] for name in command_line.lazy),
    *(["data", name] for name in DATA),
    *(["make", name] for name in MAKE),
]
LARGE = "{'torch', 'transformers', 'datasets', 'pyarrow', 'matplotlib', 'gradio', 'spacy'}"


def test_help_and_version():
    for names in ([], *COMMANDS):
        done = run(*names, "--help")
        assert done.code == 0 and done.out.startswith("Usage: narrative-twins"), names
        assert done == run(*names, "-h")
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", run("--version").out)


def test_help_imports_nothing_large():
    """Nor does showing scores; all in one process, since starting one takes longest."""
    code = f"""if True:
        import contextlib, io, sys
        from narrative_twins.commands.cli import main
        for names in {COMMANDS}:
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                main([*names, "--help"])
            found = sorted({LARGE} & set(sys.modules))
            assert not found, (names, found)"""
    run_python("-c", code)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["scores"], "'score'?); see narrative-twins --help"),
        (["score", "--formt", "html"], "'--formt'. (Did you mean one of: '--format',"),
        (["score", "--top", "0"], "0 is not in the range x>=1"),
        (["score", "--operations", "erasure"], "'erasure' is not one of 'deletion', "),
        (["score", "--windows", "five"], "'five' is neither auto"),
        (["score", "--approximate", "one-pass", "--max-shifts", "2"], "has no effect"),
        (["corpus", "x", "-o", "y", "--max-shifts", "2"], "leave it out, or score exactly"),
        (["score", "--approximate", "exact"], "'exact' is not one of 'one-pass', 'none'"),
        (["score", "--resume"], "--resume needs --format jsonl and --out FILE"),
        (["score", "--out", "out.xyz"], ".xyz is not the suffix of a format; use one of .txt, "),
        (["score", "a.txt", "--out", "./a.txt"], "a.txt is read, and would be overwritten"),
        (["score", "--share", "0.5"], "--share needs --format extract"),
        (["score", "-f", "extract", "--share", "0.5", "--top", "1"], "--top and --share"),
        (["book"], "Missing argument 'FILE'"),
        (["evaluate"], "name stories with labels"),
        (["evaluate", "stories", "--server", "http://x"], "must be used together"),
        (["evaluate", "stories", "--model", "a,b"], "'a,b' names several runs"),
        (["evaluate", "stories", "--model", "=a"], "'=a' is not ENCODER, NAME=ENCODER or"),
        (["evaluate", "stories", "--results", "a"], "'a' is not NAME=FILE"),
        (["evaluate", "stories", "--baselines", "best"], "'best' is not one of 'none', "),
        (["app", "--port", "70000"], "70000 is not in the range"),
        (["make", "twin"], "No such command 'twin'. Did you mean 'twins'?"),
    ],
    ids=str,
)
def test_wrong_arguments_are_one_line(arguments, problem):
    """With the command that was meant, before anything is read or loaded."""
    done = run(*arguments)
    assert (done.code, done.out) == (2, ""), done
    assert problem in done.err and done.err.endswith(" --help\n") and done.err.count("\n") == 1


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_a_mistyped_flag_is_one_line_with_the_near_one(names):
    done = run(*names, "--hlep")
    assert done.code == 2 and done.err.count("\n") == 1, done
    assert done.err.startswith(f"narrative-twins {' '.join(names)}: No such option '--hlep'.")
    assert "--help'" in done.err


def test_what_a_terminal_can_not_show_needs_a_file():
    for form in ("html", "png"):
        done = run("score", "story.txt", "--format", form, terminal=True)
        assert done.code == 2 and "needs --out FILE in a terminal" in done.err


def test_nothing_is_read_from_a_terminal():
    for command in (["score"], ["show"], ["corpus", "-o", "x"]):
        done = run(*command, terminal=True)
        assert done.code == 2 and "name a file, or - for standard input" in done.err


def test_it_runs_as_a_module():
    """The installed command runs in tests/test_docs.py."""
    assert run_python("-m", "narrative_twins", "--version") == run("--version").out


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["2000", None]),
        ({"GOMP_SPINCOUNT": "7"}, ["7", None]),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, [None, "ACTIVE"]),
    ],
    ids=str,
)
def test_threads_are_set_to_sleep_soon_before_torch_is_imported(given, expected, tmp_path):
    """A command sees torch imported with the setting, which libgomp reads then."""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    story = tmp_path / "story.txt"
    story.write_text("Nadia ran. It rained.")
    code = f"""
import json
import os
import sys


class Watcher:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(json.dumps([os.environ.get(name) for name in {names}]), flush=True)
            os._exit(0)


sys.meta_path.insert(0, Watcher())
from narrative_twins.commands.cli import main
main(["score", {str(story)!r}])
"""
    found = run_python("-c", code, cwd=tmp_path, env=kept | given)
    assert json.loads(found) == expected


def test_ctrl_c_while_the_command_is_imported():
    code = (
        "import sys; from narrative_twins.__main__ import start\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting()); sys.exit(start())"
    )
    done = run_command(sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (130, "narrative-twins: interrupted\n")


def test_the_end_of_a_command_does_not_look_for_garbage():
    code = (
        "import gc, sys; from narrative_twins.__main__ import start\n"
        "sys.argv = ['narrative-twins', '--version']\n"
        "try: start()\n"
        "finally: print(gc.get_freeze_count() > 1000)"
    )
    assert run_python("-c", code).split()[-1] == "True"

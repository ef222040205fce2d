"""The command line itself: help, mistakes, exit codes, and what is imported."""

import os
import re
import shlex
import sys
from unittest import mock

import pytest

from narrative_twins.commands.cli import MAKE, command_line, main

from support.command import run
from support.processes import run_command, run_python
from support.rows import read_rows, write_rows

COMMANDS = [*([name] for name in command_line.lazy), *(["make", name] for name in MAKE)]
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
            with contextlib.redirect_stdout(io.StringIO()):
                main([*names, "--help"])
            found = sorted({LARGE} & set(sys.modules))
            assert not found, (names, found)"""
    run_python("-c", code)


def test_a_command_imports_no_room_of_others():
    """`score` asks no language model, makes no data and serves no page."""
    code = """if True:
        import sys
        import narrative_twins.commands.score
        print(*sorted({name.split(".")[1] for name in sys.modules if "narrative_twins." in name}))"""
    rooms = set(run_python("-c", code).split())
    assert rooms >= {"commands", "books", "show"}
    assert not rooms & {"app", "making", "prompting", "evaluation", "training"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["scores"], "'score'?); see narrative-twins --help"),
        (["score", "--formt", "html"], "'--formt'. (Did you mean one of: '--format',"),
        (["score", "--windows", "five"], "'five' is neither auto"),
        (["score", "--pooling", "men"], "'lasttoken', 'weightedmean'. Did you mean 'mean'?"),
        (["score", "--operations", "shifting,deletions"], "Did you mean 'deletion'?"),
        (
            ["score", "--operations", "deletion", "--operations", "shifting"],
            "once: --operations A,B",
        ),
        (["score", "-o", "a", "--out", "b"], "score: --out is repeated; use it once; see"),
        (["score", "--fast", "--exact"], "--fast and --exact contradict each other; use one"),
        (["make", "align", "a", "-o", "b", "--seed", "1", "--seed", "1"], "--seed is repeated"),
        (["score", "--resume"], "--resume needs --format jsonl and --out FILE"),
        (["score", "--out", "out.xyz"], ".xyz is not the suffix of a format; use one of .txt, "),
        (["score", "--share", "0.5"], "--share needs --format extract"),
        (["score", "-f", "extract", "--share", "0.5", "--top", "1"], "--top and --share"),
        (["evaluate"], "Missing argument 'DATA...'"),
        (["evaluate", "stories", "--model", "a,b"], "'a,b' names several runs"),
        (["evaluate", "stories", "--model", "=a"], "'=a' is not ENCODER, NAME=ENCODER or"),
        (["evaluate", "stories", "--results", "a"], "'a' is not NAME=FILE"),
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


OVERWRITTEN = [
    ("score rows.jsonl -f jsonl -o ./rows.jsonl", "rows.jsonl is read, and would be overwritten"),
    ("score many -o many/out.jsonl", "is in many, which is read"),
    ("corpus rows.jsonl -o rows.jsonl", "name a folder with --out"),
    ("corpus many -o many/scores", "--out many/scores is in many, which is read"),
    ("corpus out/*.parquet -o out", "out/*.parquet is read, and would be"),
    ("make align rows.jsonl -o rows.jsonl", "would be overwritten"),
    ("make align . -o a.jsonl", "is in ., which is read"),
    ("make align rows.jsonl -o -", "ends in .jsonl"),
    ("make entities rows.jsonl -o rows.jsonl", "would be overwritten"),
]


@pytest.mark.parametrize(("line", "problem"), OVERWRITTEN, ids=str)
def test_what_is_read_is_never_overwritten(line, problem, tmp_path):
    for name in ("rows.jsonl", "many/rows.jsonl", "out/scores-00000.parquet"):
        write_rows(tmp_path / name, [{"id": "x", "text": "Nadia ran."}])
    done = run(*line.split(), cwd=tmp_path)
    assert done.code == 2 and problem in done.err
    assert len(read_rows(tmp_path / "rows.jsonl")) == 1


def test_what_a_terminal_can_not_show_needs_a_file():
    for form in ("html", "png"):
        done = run("score", "story.txt", "--format", form, terminal=True)
        assert done.code == 2 and "needs --out FILE in a terminal" in done.err


def test_nothing_is_read_from_a_terminal():
    for command in (["score"], ["show"], ["corpus", "-o", "x"]):
        done = run(*command, terminal=True)
        assert done.code == 2 and "name a file, or - for standard input" in done.err


@pytest.mark.parametrize(
    "line",
    [
        *("score -", "score", "show -", "show", "book -", "extract -"),
        *("corpus - -o out", "corpus -o out", "annotate - -o a.jsonl", "make align - -o a.jsonl"),
        "make twins - -o a.jsonl --server http://localhost --model none",
        "make judgments -o a.jsonl --server http://localhost --model none",
    ],
)
def test_a_closed_standard_input_is_an_error(line, tmp_path):
    done = run(*line.split(), input=None, cwd=tmp_path)
    assert done.code == 1 and "standard input is closed" in done.err, done


def test_a_closed_standard_output_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["--help"]) == 1
    assert capsys.readouterr().err == "narrative-twins: standard output is closed\n"


def test_a_closed_standard_error_loses_messages_only(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["--version"]) == 0 and main(["score", "none.txt"]) == 1
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.skipif(os.name == "nt", reason="the shell of Windows closes no streams")
def test_no_file_gets_the_descriptor_of_a_closed_stream(tmp_path):
    """What libraries print to it would be in the file."""
    code = """if True:
        import os, sys
        from narrative_twins.commands.cli import main
        print(main(["show", "-"]), os.open(sys.argv[1], os.O_CREAT) > 2)"""
    command = [sys.executable, "-c", code, str(tmp_path / "file")]
    done = run_command("sh", "-c", f"{shlex.join(command)} <&- 2>&-")
    assert done.stdout == "1 True\n"


def test_it_runs_as_a_module():
    """The installed command runs in tests/test_docs.py."""
    assert run_python("-m", "narrative_twins", "--version") == run("--version").out


AT_IMPORT = """
import sys

class Interruption:
    def find_spec(self, name, *rest):
        if name == "click":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interruption())
from narrative_twins.__main__ import start
sys.exit(start())
"""


def test_an_interruption_while_modules_are_imported_is_no_traceback():
    done = run_command(sys.executable, "-c", AT_IMPORT)
    assert (done.returncode, done.stderr) == (130, "narrative-twins: interrupted\n")


@pytest.mark.parametrize("of_user", [{}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "ACTIVE"}])
def test_threads_sleep_soon_unless_the_user_sets_something(of_user):
    """libgomp reads it when torch is imported, which is later."""
    with mock.patch.dict(os.environ, of_user, clear=True), mock.patch.dict(sys.modules):
        sys.modules.pop("torch", None)
        assert main(["--version"]) == 0
        assert dict(os.environ) == (of_user or {"GOMP_SPINCOUNT": "2000"})

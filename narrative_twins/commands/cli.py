"""`narrative-twins`: the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from narrative_twins.writing import ResumeError, for_terminal

INTERRUPTED = 130  # the exit code after Ctrl-C, as in shells
_SPINS = "2000"

COMMANDS: dict[str, tuple[str, str]] = {
    "score": ("score", "Score every sentence of stories."),
    "show": ("outputs", "Show saved scores in any format, without an encoder."),
    "book": ("books", "Score the chapters, scenes and sentences of a book."),
    "extract": ("books", "Extract the salient sentences of a book."),
    "corpus": ("corpus", "Score a corpus into a folder of Parquet files."),
    "evaluate": ("evaluate", "Compare encoders and baselines with human labels."),
    "app": ("share", "Serve a web page to score stories on."),
    "annotate": ("share", "Serve a web page on which people choose sentences."),
    "push": ("share", "Push an encoder to the Hub."),
    "data": ("cli", "The data sets of the package."),
    "make": ("cli", "Make data to train on."),
}
"""The commands, each with its module and its line in `--help`."""

DATA = {"export": ("share", "Write the data sets of the package into a folder.")}
MAKE = {
    "twins": ("make_by_model", "Narrative twins and distractors, by a language model."),
    "judgments": ("make_by_model", "Votes for sentences of stories, by a language model."),
    "align": ("make_from_texts", "Long narrative twins from several tellings of works."),
    "entities": ("make_from_texts", "Narrative twins with other names."),
}


class LazyGroup(click.Group):
    """A group of commands whose modules are imported only when they are used, since they import
    libraries that others do not need.

    Args:
        lazy: the commands, each with its module and its line in `--help`.
        settings: those of `click.Group`.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order that they are listed in."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """A command by its name."""
        if cmd_name not in self.lazy:
            raise click.NoSuchCommand(cmd_name, possibilities=self.lazy, ctx=ctx)
        module = import_module(f"narrative_twins.commands.{self.lazy[cmd_name][0]}")
        # A command of a group is a function of another name, `export` of `data` for example.
        prefix = "" if ctx.parent is None else f"{ctx.info_name}_"
        found: click.Command = getattr(module, f"{prefix}{cmd_name}")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lines of the commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.lazy.items()])


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings=_SETTINGS)
@click.version_option(package_name="narrative_twins", message="%(version)s")
def command_line() -> None:
    """Which sentences of a story carry it."""


data = LazyGroup("data", lazy=DATA, help=COMMANDS["data"][1])
make = LazyGroup("make", lazy=MAKE, help=COMMANDS["make"][1])


def _yield_to_other_runs() -> None:
    """Set how long the threads of torch wait for each other by spinning, unless the user has: about
    0.1 milliseconds, then they sleep. By default libgomp, the OpenMP library of torch for CPUs on
    Linux, spins 300,000 times, several milliseconds, in which the threads of another run on the
    same cores can't work. It reads the setting when torch is imported."""
    if "torch" not in sys.modules and not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
        os.environ["GOMP_SPINCOUNT"] = _SPINS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default with the arguments of the process.

    Returns:
        The exit code: 0; 1 if something failed, for example a story that could not be scored; 2 if
        a run can't be resumed; 130 after Ctrl-C.

    Raises:
        SystemExit: with 2, the arguments are wrong; with 0, after `--help` and `--version`.
    """
    _replace_closed_streams()
    _yield_to_other_runs()
    try:
        name = "narrative-twins"
        given = list(sys.argv[1:] if arguments is None else arguments)
        with command_line.make_context(name, given) as context:
            return command_line.invoke(context) or 0
    except click.exceptions.Exit as stop:
        raise SystemExit(stop.exit_code) from None
    except click.exceptions.NoArgsIsHelpError as error:
        _say(error.format_message())
        raise SystemExit(2) from None
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else name
        message = error.format_message().rstrip(".")
        _say(f"{command}: {message}; see {command} --help")
        raise SystemExit(2) from None
    except KeyboardInterrupt as interrupt:
        hint = "".join(f"; {part}" for part in interrupt.args if part)
        _say(f"narrative-twins: interrupted{hint}")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has stopped reading.
        _discard_output()
        return 0
    except (OSError, ValueError, ImportError, MemoryError) as error:
        _say(f"narrative-twins: {_problem(error)}")
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return 2 if isinstance(error, ResumeError) else 1


def _replace_closed_streams() -> None:
    """Replace streams that are closed from the beginning (`>&-`), for which Python has None, by
    ones that can't be read or written; what is written to a closed standard error is discarded. The
    next file that is opened would otherwise have the number of the closed one, and a library that
    prints would print into it."""
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _problem(error: Exception) -> str:
    """An error as text: one of the operating system without its number, and with the file."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([" to ".join(names), error.strerror] if names else [error.strerror])


def _say(message: str) -> None:
    print(for_terminal(message), file=sys.stderr)


def _discard_output() -> None:
    """Discard what standard output still holds, which can't be written; Python would report it at
    exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())

"""`narrative-twins`: the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from narrative_twins.commands.streams import discard_output, prepare_streams
from narrative_twins.text import for_terminal
from narrative_twins.writing import ResumeError

PROGRAM = "narrative-twins"

COMMANDS: dict[str, str] = {
    "score": "Score every sentence of stories.",
    "show": "Show saved scores in any format, without an encoder.",
    "book": "Score the chapters, scenes and sentences of a book.",
    "extract": "Extract the salient sentences of a book.",
    "corpus": "Score a corpus into a folder of Parquet files.",
    "evaluate": "Compare encoders and baselines with human labels.",
    "app": "Serve a web page to score stories on.",
    "annotate": "Serve a web page on which people choose sentences.",
    "push": "Push an encoder to the Hub.",
    "make": "Make data to train on.",
}
"""The commands, each with its line in `--help`. A command is a function in a module, both of its
name; `make twins`, a command of the group `make`, is `make_twins`."""

MAKE = {
    "twins": "Narrative twins and distractors, by a language model.",
    "judgments": "Votes for sentences of stories, by a language model.",
    "align": "Long narrative twins from several versions of works.",
    "entities": "Narrative twins with other names.",
}


class LazyGroup(click.Group):
    """A group of commands. The module of a command is imported only when the command is used.

    Args:
        lazy: by the name of a command, its line in `--help`.
        settings: arguments of `click.Group`.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of `--help`."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import and return the command `cmd_name`; raise `NoSuchCommand` if it does not exist."""
        if cmd_name not in self.lazy:
            raise click.NoSuchCommand(cmd_name, possibilities=self.lazy, ctx=ctx)
        if cmd_name in self.commands:  # a group
            return self.commands[cmd_name]
        name = cmd_name if ctx.parent is None else f"{ctx.info_name}_{cmd_name}"
        command: click.Command = getattr(import_module(f"narrative_twins.commands.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their lines to `--help`, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl([*self.lazy.items()])


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings=_SETTINGS)
@click.version_option(package_name="narrative_twins", message="%(version)s")
def command_line() -> None:
    """Which sentences of a story carry it."""


command_line.add_command(LazyGroup("make", lazy=MAKE, help=COMMANDS["make"]))


def _yield_to_other_runs() -> None:
    """Let idle threads of torch sleep after about 0.1 milliseconds, unless the user has set a time.
    By default libgomp on Linux lets them spin for several milliseconds, in which other runs on the
    same cores can't work. Torch reads the setting when it is imported."""
    if "torch" not in sys.modules and not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
        os.environ["GOMP_SPINCOUNT"] = "2000"


_FAILURES = (click.UsageError, KeyboardInterrupt, OSError, ValueError, ImportError, MemoryError)
"""What a command may raise. The user gets its message; other exceptions are mistakes of ours."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default with the arguments of the process. Returns the exit code: 0; 1 if
    something failed, for example a story that could not be scored; 2 if the arguments are wrong or
    a run can't be resumed; 130 after Ctrl-C."""
    prepare_streams()
    _yield_to_other_runs()
    words = sys.argv[1:] if arguments is None else [*arguments]
    try:
        with command_line.make_context(PROGRAM, words) as context:
            return command_line.invoke(context) or 0
    except click.exceptions.Exit as stop:  # --help and --version
        return stop.exit_code
    except BrokenPipeError:  # the reader of the pipe has stopped reading
        discard_output()
        return 0
    except _FAILURES as error:
        message, code = _failure(error)
        print(for_terminal(message), file=sys.stderr)
        return code


def _failure(error: BaseException) -> tuple[str, int]:
    """Return what to tell the user about an error, and the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message(), 2
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else PROGRAM
        return f"{command}: {error.format_message().rstrip('.')}; see {command} --help", 2
    if isinstance(error, KeyboardInterrupt):
        hints = (str(hint) for hint in error.args if hint)
        return "; ".join([f"{PROGRAM}: interrupted", *hints]), 130  # as in shells
    return f"{PROGRAM}: {_problem(error)}", 2 if isinstance(error, ResumeError) else 1


def _problem(error: BaseException) -> str:
    """Return an error as text; an `OSError` as its files and its reason."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([" to ".join(names), error.strerror] if names else [error.strerror])


if __name__ == "__main__":
    sys.exit(main())

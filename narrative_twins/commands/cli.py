"""`narrative-twins`: the command line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from narrative_twins.text import for_terminal
from narrative_twins.writing import ResumeError

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default with the arguments of the process.

    Returns:
        The exit code: 0; 1 if something failed, for example a story that could not be scored; 2 if
        a run can't be resumed; 130 after Ctrl-C.

    Raises:
        SystemExit: with 2, the arguments are wrong; with 0, after `--help` and `--version`.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Consoles of Windows lack characters that tables and stories have.
        sys.stdout.reconfigure(errors="replace")
    _yield_to_other_runs()
    name, words = "narrative-twins", sys.argv[1:] if arguments is None else arguments
    try:
        with command_line.make_context(name, [*words]) as context:
            return command_line.invoke(context) or 0
    except click.exceptions.Exit as stop:
        raise SystemExit(stop.exit_code) from None
    except click.UsageError as error:
        command, message = error.ctx.command_path if error.ctx else name, error.format_message()
        if not isinstance(error, click.exceptions.NoArgsIsHelpError):
            message = f"{command}: {message.rstrip('.')}; see {command} --help"
        _say(message)
        raise SystemExit(2) from None
    except KeyboardInterrupt as interrupt:
        hint = "".join(f"; {part}" for part in interrupt.args if part)
        _say(f"narrative-twins: interrupted{hint}")
        return 130  # as in shells
    except BrokenPipeError:
        # The reader of the pipe has stopped reading. Python would report at exit that it can't
        # write what standard output still holds.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, ImportError, MemoryError) as error:
        _say(f"narrative-twins: {_problem(error)}")
        return 2 if isinstance(error, ResumeError) else 1


def _problem(error: Exception) -> str:
    """Return an error as text; an `OSError` as its files and its reason."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([" to ".join(names), error.strerror] if names else [error.strerror])


def _say(message: str) -> None:
    """Print a line to standard error."""
    print(for_terminal(message), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

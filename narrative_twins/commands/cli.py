"""`narrative-twins`: the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from typing import Any, NamedTuple

from narrative_twins.extras import check_extra
from narrative_twins.files import ResumeError

INTERRUPTED = 130  # the exit code after Ctrl-C, as in shells


class Command(NamedTuple):
    """A command: its line in `--help`, its own commands if it has any, and the extra whose
    libraries it needs."""

    help: str
    commands: dict[str, Command] = {}
    extra: str | None = None


COMMANDS = {
    "score": Command("score every sentence of stories"),
    "show": Command("show scores that were saved, in any format, without an encoder"),
    "extract": Command("the salient sentences of a book, as text, Markdown or EPUB"),
    "report": Command("score stories, and write a folder of pages on them"),
    "evaluate": Command("compare encoders and baselines with human labels", extra="train"),
    "app": Command("a web page to score stories on"),
    "export": Command("export an encoder, to run it without torch"),
    "push": Command("push an encoder to the Hub", extra="train"),
    "data": Command(
        "the data sets of the package",
        {
            "export": Command(
                "write them into a folder, for datasets.load_dataset and the Hub", extra="train"
            )
        },
    ),
    "make": Command(
        "make data to train on",
        {
            "twins": Command(
                "narrative twins and distractors of stories, by a language model", extra="train"
            ),
            "judgments": Command(
                "votes for the sentences of stories, by a language model", extra="train"
            ),
            "align": Command("long narrative twins from several tellings of works", extra="train"),
            "entities": Command("replace the names in narrative twins", extra="train"),
        },
    ),
}
"""The commands. `NAME` is in the module `commands.NAME`, `make NAME` in `commands.make_NAME`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default with the arguments of the process.

    Returns:
        The exit code: 0; 1 if something failed, for example a story that could not be scored; 130
            after Ctrl-C. Wrong
        arguments exit with 2.
    """
    _fill_closed_descriptors()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="narrative-twins", description="Which sentences of a story carry it."
    )
    parser.add_argument("--version", action="version", version=metadata.version("narrative_twins"))
    try:
        _add_commands(parser, COMMANDS, arguments)
    except ImportError as error:
        print(f"narrative-twins: {error}", file=sys.stderr)
        return 1
    options = parser.parse_args(arguments)
    # The module of the command: `run`, and perhaps `check` (options that contradict each other) and
    # `on_interrupt`.
    command: Any = options.command
    if hasattr(command, "check"):
        command.check(options.parser, options)
    try:
        return int(command.run(options))
    except KeyboardInterrupt:
        hint = command.on_interrupt(options) if hasattr(command, "on_interrupt") else None
        print(f"narrative-twins: interrupted{f'; {hint}' if hint else ''}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has stopped reading.
        _discard_output()
        return 0
    except (OSError, ValueError, ImportError) as error:
        print(f"narrative-twins: {error}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except (OSError, AttributeError):
            _discard_output()
        return 2 if isinstance(error, ResumeError) else 1


def _discard_output() -> None:
    """Discard what standard output still holds, which can't be written; Python would report it at
    exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fill_closed_descriptors() -> None:
    """Open the null device in the place of closed standard streams. Otherwise the next file that is
    opened would take their number, and what libraries print would be written into it."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")


def _add_commands(
    parser: argparse.ArgumentParser,
    commands: dict[str, Command],
    arguments: Sequence[str],
    prefix: str = "",
) -> None:
    """Add commands to a parser. Only the module of the command that the arguments name is imported,
    since the others import libraries that it does not need."""
    subparsers = parser.add_subparsers(required=True, metavar="WHAT" if prefix else "COMMAND")
    for name, command in commands.items():
        subparser = subparsers.add_parser(
            name, help=command.help, description=f"{command.help.capitalize()}."
        )
        if list(arguments[:1]) != [name]:
            continue
        if command.commands:
            _add_commands(subparser, command.commands, arguments[1:], f"{prefix}{name}_")
        else:
            if command.extra is not None:
                check_extra(command.extra)
            module = import_module(f"narrative_twins.commands.{prefix}{name}")
            module.add_options(subparser)
            subparser.set_defaults(command=module, parser=subparser)


if __name__ == "__main__":
    sys.exit(main())

"""`narrative-twins`: the command-line door."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from narrative_twins.commands import app, make, push, report, score

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code: 0, 1 if something could not be done, such as a story scored, 130 after
    Ctrl-C (wrong calls exit with 2)."""
    options = _parser().parse_args(arguments)
    options.check(options)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        kept = options.kept(options)
        print(f"narrative-twins: interrupted{f'; {kept}' if kept else ''}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has had enough; what is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, ImportError) as error:
        print(f"narrative-twins: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="narrative-twins", description="Which sentences of a story carry it.")
    parser.add_argument("--version", action="version", version=metadata.version("narrative_twins"))
    # What a command leaves out: options that do not go together, and what is kept after an interruption.
    parser.set_defaults(check=lambda options: None, kept=lambda options: None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (score, report, app, push, make):
        command.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())

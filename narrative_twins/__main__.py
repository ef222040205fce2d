"""`python -m narrative_twins` and `narrative-twins`: the command line."""

from __future__ import annotations

import sys


def start() -> int:
    """Run the command of the process, see `main`; also while it is imported, Ctrl-C ends it without
    a traceback."""
    try:
        from narrative_twins.commands.cli import main
    except KeyboardInterrupt:
        print("narrative-twins: interrupted", file=sys.stderr)
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(start())

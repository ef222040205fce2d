"""`python -m narrative_twins` and `narrative-twins`: the command line."""

from __future__ import annotations

import gc
import sys


def start() -> int:
    """Run the command of the process, see `main`; also while it is imported, Ctrl-C ends it without
    a traceback."""
    try:
        from narrative_twins.commands.cli import main
    except KeyboardInterrupt:
        print("narrative-twins: interrupted", file=sys.stderr)
        return 130
    try:
        return main()
    finally:
        # The end of the process would otherwise look for garbage among all objects of torch, for up
        # to two seconds.
        gc.freeze()


if __name__ == "__main__":
    sys.exit(start())

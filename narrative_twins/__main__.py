"""`python -m narrative_twins` and `narrative-twins`: the command line."""

from __future__ import annotations

import gc
import signal
import sys


def start() -> int:
    """Run the command line, and return the exit status of the process. Ctrl-C ends the process
    without a traceback, also while the command line is being imported."""
    if hasattr(signal, "SIGBREAK"):  # Ctrl-Break on Windows ends a command as Ctrl-C does
        signal.signal(signal.SIGBREAK, signal.default_int_handler)
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

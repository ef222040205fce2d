"""Messages to the user, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from narrative_twins.text import for_terminal


def tell(message: object) -> None:
    """Print a line for the user to standard error, without breaking a progress bar."""
    tqdm.write(for_terminal(f"narrative-twins: {message}"), file=sys.stderr)


def shows_progress(quiet: bool) -> bool:
    """Return whether to show a progress bar: standard error is a terminal, and not `quiet`."""
    return sys.stderr.isatty() and not quiet


@contextmanager
def on_interrupt(hint: str) -> Iterator[None]:
    """Add `hint`, on how to continue, to the message after Ctrl-C within the `with` block."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(hint) from None

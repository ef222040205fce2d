"""Options of the server of a page."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import click


@dataclass(frozen=True)
class Serving:
    """Options of the server of a page.

    Attributes:
        host: Address to listen at (default: 127.0.0.1, reached from this machine only).
        port (N): 0 for any free port (default: 7860, or the next free port).
        allow_host (NAME): Another name of the page, for example of a proxy; can be repeated.
        open: Open the page in the browser.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, click.IntRange(0, 65535)] | None = None
    allow_host: Sequence[str] = ()
    open: bool = False

    def serve(self, build: Callable[[], Any]) -> None:
        """Serve the page that `build` returns, until Ctrl-C."""
        from narrative_twins.app.server import serve

        serve(build, self.host, self.port, allow_hosts=self.allow_host, ready=self._ready)

    def _ready(self, address: str) -> None:
        """Print the address of the page, and open it in the browser if `open` is set."""
        print(f"The page is at {address} until Ctrl-C.", flush=True)
        if self.open:
            webbrowser.open(address)

"""`narrative-twins app`: serve the web page."""

from __future__ import annotations

import argparse
import webbrowser

from transformers.utils import logging as transformers_logging

from narrative_twins.app.server import PORT, serve


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Serve a web page to score stories on, until Ctrl-C. The server sends stories nowhere else."
    )
    add = parser.add_argument
    add(
        "--host",
        default="127.0.0.1",
        help="default: 127.0.0.1, this machine; at others visitors can't name encoders",
    )
    add(
        "--port",
        type=port,
        metavar="N",
        help=f"0 for any free port (default: {PORT}, or the next free port)",
    )
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which the page may also be reached, for example behind a proxy; repeatable",
    )
    add("--open", action="store_true", help="open the page in the browser")
    add("--model", help="folder or Hub id of the encoder (default: the default encoder)")


def run(options: argparse.Namespace) -> int:
    """Serve the page."""

    def ready(address: str) -> None:
        print(f"The page is at {address} until Ctrl-C.", flush=True)
        if options.open:
            webbrowser.open(address)

    transformers_logging.disable_progress_bar()
    serve(
        options.host, options.port, model=options.model, allow_hosts=options.allow_host, ready=ready
    )
    return 0


def port(text: str) -> int:
    """A port number, for `argparse`."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number from 0 to 65535")
    return int(text)

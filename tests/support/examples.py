"""Run the scripts of examples/, benchmarks/ and research/."""

import contextlib
import io
import runpy
import sys
from pathlib import Path
from unittest import mock

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(script: str | Path, *arguments: object) -> str:
    """Run a script in this process, which saves its imports; returns its standard output. A name
    is that of a script in examples/."""
    printed = io.StringIO()
    argv = [str(part) for part in (EXAMPLES / script, *arguments)]
    with mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(printed):
        runpy.run_path(argv[0], run_name="__main__")
    return printed.getvalue()

"""Executes examples/salience.ipynb in a kernel of its own, and writes it with its outputs.

    PYTHONPATH=tests python -m support.notebook [OUT]

Without OUT the notebook itself is written. Times and progress bars are left out,
so that the same outputs make the same file.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FILE = Path(__file__).parents[2] / "examples" / "salience.ipynb"
TIMEOUT = 900


def execute(out: Path) -> None:
    """Execute the notebook; raises CellExecutionError if a cell fails."""
    notebook = nbformat.read(FILE, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(
            notebook,
            timeout=TIMEOUT,
            resources=resources,
            kernel_name="python3",
            record_timing=False,
        ).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    nbformat.write(notebook, out)


if __name__ == "__main__":
    execute(Path(sys.argv[1]) if sys.argv[1:] else FILE)

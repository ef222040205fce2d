"""The notebook of the examples runs, and prints what is stored in it.

    PYTHONPATH=tests python -m test_notebook

writes it with its outputs. Times and progress bars are left out, so that the same outputs make the
same file."""

import re
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "salience.ipynb"
FIGURE = re.compile(r"-?\d+\.\d+")


def executed(folder: Path | str):
    """The notebook with the outputs of a new run; raises CellExecutionError if a cell fails."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    options = {"resources": {"metadata": {"path": str(folder)}}, "record_timing": False}
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", **options).execute()
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel}
    for cell in code_cells(notebook):
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cell) -> list[str]:
    """What a cell prints, and the kinds of what it shows. The shown text itself may depend on
    libraries."""
    return [
        output.text if output.output_type == "stream" else output.output_type
        for output in cell.outputs
    ]


@pytest.mark.slow
def test_the_notebook_runs_and_has_its_outputs(tmp_path):
    stored = code_cells(nbformat.read(NOTEBOOK, as_version=4))
    again = code_cells(executed(tmp_path))
    assert [cell.execution_count for cell in stored] == [*range(1, len(stored) + 1)]
    for texts, expected in zip(map(printed, again), map(printed, stored), strict=True):
        assert [FIGURE.sub("0", text) for text in texts] == [
            FIGURE.sub("0", text) for text in expected
        ]
        figures, shown = (
            list(map(float, FIGURE.findall("".join(part)))) for part in (texts, expected)
        )
        assert figures == pytest.approx(shown, abs=0.005)
    assert any("image/png" in output.get("data", {}) for cell in stored for output in cell.outputs)
    assert NOTEBOOK.stat().st_size < 200_000


def test_the_notebook_has_no_paths_and_no_errors():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not re.search(r'/(home|root|tmp|work|Users)/|"output_type": "error"', text)


if __name__ == "__main__":
    nbformat.write(executed("."), NOTEBOOK)

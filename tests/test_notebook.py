"""The notebook of the examples runs, and prints what is stored in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip(
    "nbformat", reason="Jupyter is not installed: pip install narrative_twins[dev]"
)
pytest.importorskip(
    "nbclient", reason="nbclient is not installed: pip install narrative_twins[dev]"
)
pytest.importorskip(
    "ipykernel", reason="ipykernel is not installed: pip install narrative_twins[dev]"
)

NOTEBOOK = Path(__file__).parents[1] / "examples" / "salience.ipynb"
FIGURE = re.compile(r"-?\d+\.\d+")


def code_cells(path: Path) -> list:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def printed(cell) -> list[str]:
    """What a cell prints, and the kinds of what it shows. The shown text itself may depend on
    libraries."""
    return [
        output.text if output.output_type == "stream" else output.output_type
        for output in cell.outputs
    ]


@pytest.mark.slow
def test_the_notebook_runs_and_has_its_outputs(tmp_path):
    from support.notebook import execute

    out = tmp_path / "executed.ipynb"
    execute(out)
    stored, found = code_cells(NOTEBOOK), code_cells(out)
    assert [cell.execution_count for cell in stored] == [*range(1, len(stored) + 1)], (
        "PYTHONPATH=tests python -m support.notebook writes them"
    )
    for cell, again in zip(stored, found, strict=True):
        texts, expected = printed(again), printed(cell)
        assert [FIGURE.sub("figure", text) for text in texts] == [
            FIGURE.sub("figure", text) for text in expected
        ]
        figures, shown = (
            list(map(float, FIGURE.findall("".join(part)))) for part in (texts, expected)
        )
        assert figures == pytest.approx(shown, abs=0.005)
    assert any("image/png" in output.get("data", {}) for cell in stored for output in cell.outputs)
    assert NOTEBOOK.stat().st_size < 200_000


def test_the_notebook_has_no_paths_and_no_errors():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert (
        not re.search(r"/(home|root|tmp|work|Users)/", text)
        and '"output_type": "error"' not in text
    )

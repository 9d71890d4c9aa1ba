"""The notebooks of the documentation, run from the first cell to the last as a reader would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"
MOST_LINES = 60


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any, kind: str) -> bool:
    return any(kind in output.get("data", {}) for output in cell.outputs)


@pytest.mark.extended
def test_a_channel_a_selection_and_a_model_of_the_readers_own_end_in_a_figure(tmp_path: Path) -> None:
    import nbformat  # only this test needs them, and it is extended
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOKS / "own-sweep.ipynb", as_version=4)
    assert all(not cell.outputs for cell in code(notebook))      # stored without what it shows
    lines = [line for cell in code(notebook) for line in cell.source.splitlines() if line.strip()]
    assert len(lines) < MOST_LINES
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    table, figure, differences, target = code(notebook)[-4:]
    assert shown(table, "text/html")      # after the progress of the sweep
    assert "Strongest" in table.outputs[-1]["data"]["text/html"]
    assert "±" in table.outputs[-1]["data"]["text/html"]
    assert shown(figure, "image/png")
    assert shown(differences, "text/html")
    assert shown(target, "text/html")

"""Executes the notebooks, each from the beginning, and fails at the first error in one; with `--write`
keeps their output.

    pip install './testbed/python[all]' nbclient ipykernel
    python testbed/python/notebooks/execute.py [--write]
"""

import os
import pathlib
import sys
import time

import nbclient
import nbformat


def execute(path):
    """The notebook with the output of this execution."""
    book = nbformat.read(path, as_version=4)
    # A cell that takes minutes has stopped.
    client = nbclient.NotebookClient(
        book, timeout=600, resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute(cwd=str(path.parent))
    for cell in book.cells:
        # When each cell ran is no result.
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", (
                f"{path.name} writes to standard error: {output['text']}"
            )
    book.metadata["language_info"] = {"name": "python"}
    return book


# Figures belong into the notebook.
os.environ.pop("MPLBACKEND", None)
for path in sorted(pathlib.Path(__file__).parent.glob("*.ipynb")):
    began = time.monotonic()
    made = execute(path)
    if "--write" in sys.argv[1:]:
        nbformat.write(made, path)
    print(f"{path.name}: {len(made.cells)} cells in {time.monotonic() - began:.0f} s")

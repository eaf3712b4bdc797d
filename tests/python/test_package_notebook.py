"""Tests that the notebooks of examples/notebooks run from top to bottom. Run by `make test-python`."""

import importlib.util
import unittest

import small

NEEDED = ("nbclient", "nbformat", "ipykernel")
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]


@unittest.skipIf(MISSING, f"not installed: `pip install {' '.join(MISSING)}`")
class Notebooks(unittest.TestCase):
    def test_runs_from_top_to_bottom(self):
        import nbclient
        import nbformat

        folder = small.ROOT / "examples/notebooks"
        found = sorted(folder.glob("*.ipynb"))
        self.assertTrue(found)
        for path in found:
            with self.subTest(path.name):
                book = nbformat.read(path, as_version=4)
                nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
                shown = [output for cell in book.cells for output in cell.get("outputs", [])]
                self.assertTrue(any("<iframe" in output.get("data", {}).get("text/html", "") for output in shown))
                self.assertTrue(any("step" in output.get("text", "") for output in shown if output.get("name") == "stderr"))


if __name__ == "__main__":
    unittest.main()

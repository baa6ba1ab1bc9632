"""Snapshots: the whole text that a page or a command prints, in one file next to the tests."""

import os
from pathlib import Path


def assert_snapshot(module: str, name: str, text: str) -> None:
    """Raise AssertionError unless the text is that of the file `NAME.txt` in the folder `snapshots` next to the tests.

    module: `__file__` of the tests. With WRITE_SNAPSHOTS=1 the file is written: look at what changed in it.
    """
    file = Path(module).parent / "snapshots" / f"{name}.txt"
    found = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    if os.environ.get("WRITE_SNAPSHOTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8"), f"if this is intended, write {file.name} again (CONTRIBUTING.md)"

"""Tables of cases: a JSON file next to a test module, which has a list of cases for each of its tests."""

import json
from functools import cache
from pathlib import Path
from typing import Any


def cases(module: str, name: str) -> Any:
    """Return the table of this name. module: `__file__` of the tests. A case with several values is a list."""
    return _tables(Path(module).with_suffix(".json"))[name]


@cache
def _tables(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))

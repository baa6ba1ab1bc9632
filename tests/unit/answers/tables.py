"""Tables of cases beside this file: one case a line, as JSON."""

import json
from pathlib import Path
from typing import Any


def rows(name: str, kind: str | None = None) -> list[list[Any]]:
    """Return the cases of a table; with a kind, those that begin with it, without it."""
    lines = Path(__file__).with_name(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return found if kind is None else [row[1:] for row in found if row[0] == kind]

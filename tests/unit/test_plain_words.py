"""Messages, docstrings and documentation use plain words: none of those that made readers stumble."""

import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AVOIDED = re.compile(r"\b(anew|beside|foretold|likewise|mend(ed|ing|s)?|schooled|so many|whoever)\b", re.IGNORECASE)
CODE = [file for folder in ("agentlearn", "domains", "evals") for file in sorted((ROOT / folder).rglob("*.py"))]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("folder", ["agentlearn", "domains", "evals"])
def test_code_speaks_plainly(folder: str) -> None:
    """Strings and comments only: a field named `mend` is part of `doctor --json`.

    The texts of generated sites, problems, traps and lessons are left out: they are what simulated worlds are made of.
    """
    found: list[str] = []
    for file in (one for one in CODE if one.is_relative_to(ROOT / folder)):
        if {"families", "sites", "novice", "traps.py", "wordings.py"} & set(file.parts):
            continue
        with file.open("rb") as source:
            for token in tokenize.tokenize(source.readline):
                if token.type in {tokenize.STRING, tokenize.COMMENT}:
                    text = re.sub(r"\{[^{}]*\}", "", token.string)
                    found += [f"{file.relative_to(ROOT)}:{token.start[0]} {one[0]}" for one in AVOIDED.finditer(text)]
    assert found == []


def test_pages_speak_plainly(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(repr(page)):
            found = AVOIDED.finditer(page.read_text(encoding="utf-8"))
            assert [one[0] for one in found] == []

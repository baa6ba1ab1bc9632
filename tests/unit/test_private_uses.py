"""Nothing private of a dependency is imported, read or overridden: such names change without notice."""

from pathlib import Path

import pytest

from tests.support.cases import cases
from tests.support.private_uses import private_uses

ROOT = Path(__file__).parents[2]
STANDARD_LIBRARY = {
    ("agentlearn.plugins", "package._path")  # of importlib.metadata
}
"""Members of the standard library, of which the text does not show that they are."""
HEAD = """
import some.package, tests.unit.test_private_uses as dependency
from pydantic import BaseModel
from tests.unit.test_private_uses import Client
"""
PLANTED = cases(__file__, "planted")


ALLOWED = [
    "import sys\nsys._current_frames()",
    "def use(row):\n    return row._replace(a=1)",
    "class Mine(Client):\n    def _ours(self):\n        return self._ours",
    "class Mine:\n    def __init__(self):\n        self._a = 1\n    def like(self, other):\n        return other._a",
    "class Mine(BaseModel):\n    __slots__ = ()\n    def __len__(self): ...",
    "for _ in 'ab':\n    pass",
]


class Client:
    """A class of a dependency, for the planted sources."""

    def __init__(self) -> None:
        self._url = ""

    def _post(self) -> None: ...


def test_nothing_private_of_a_dependency_is_used() -> None:
    files = {root: list((ROOT / root).rglob("*.py")) for root in ("agentlearn", "domains", "evals")}
    sources = {
        ".".join(
            path.relative_to(ROOT if root == "agentlearn" else ROOT / root).with_suffix("").parts
        ): path.read_text()
        for root, paths in files.items()
        for path in paths
    }
    found = [one for one in private_uses(sources) if (one.module, one.name) not in STANDARD_LIBRARY]
    assert not found, "use the public interface instead: " + "\n".join(map(str, found))


def test_a_planted_use_is_found(subtests: pytest.Subtests) -> None:
    for source, name in PLANTED:
        with subtests.test(repr((source, name))):
            assert {one.name for one in private_uses({"mine": HEAD + source})} == {name}


def test_what_is_ours_or_public_is_not_found(subtests: pytest.Subtests) -> None:
    for source in ALLOWED:
        with subtests.test(source):
            assert private_uses({"mine": HEAD + source}) == []

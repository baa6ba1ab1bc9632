"""Nothing private of a dependency is imported, read or overridden: such names change without notice."""

from pathlib import Path

import pytest

from tests.support.private_uses import private_uses

ROOT = Path(__file__).parents[2]
STANDARD_LIBRARY = {
    ("agentlearn.plugins", "package._path"),  # of importlib.metadata
}
"""Members of the standard library, of which the text does not show that they are."""
HEAD = """
import some.package, tests.unit.test_private_uses as dependency
from pydantic import BaseModel
from tests.unit.test_private_uses import Client
"""
PLANTED = [
    ("from some._types import NOT_GIVEN", "some._types.NOT_GIVEN"),
    ("from some import _base_client", "some._base_client"),
    ("import some._models", "some._models"),
    ("def late():\n    from some.models import _utils", "some.models._utils"),
    ("from importlib import import_module\nimport_module('some._client')", "some._client"),
    ("some._utils", "some._utils"),
    ("some.package.Model._client", "some.package.Model._client"),
    ("Client._post", "Client._post"),
    ("def use(model):\n    return model._settings", "model._settings"),
    ("def use(model):\n    model._settings = 1", "model._settings"),
    ("def use(model):\n    return getattr(model, '_settings', None)", "model._settings"),
    ("def use(model):\n    return model.__dict__['_settings']", "model._settings"),
    ("def use(model):\n    return vars(model)['_settings']", "model._settings"),
    ("class Mine(Client):\n    def _post(self): ...", "Client._post"),
    ("class Mine(dependency.Client):\n    _post = None", "Client._post"),
    ("class Mine(Client):\n    def use(self):\n        return self._url", "Client._url"),
    ("class Mine(Client):\n    def use(self):\n        return getattr(self, '_url')", "Client._url"),
    ("class Mine(Client):\n    def use(self):\n        return super()._post", "Client._post"),
    ("class Mine(Client):\n    @classmethod\n    def use(cls):\n        return cls._post", "Client._post"),
    ("class Mine(Client):\n    def __init__(self):\n        self._url = 1", "Client._url"),
    ("class Mine(Client):\n    def __init__(self):\n        setattr(self, '_url', 1)", "Client._url"),
    ("class Mine(BaseModel):\n    _iter: int = 1", "BaseModel._iter"),
    ("class A(Client): ...\nclass B(A):\n    _url = ''", "Client._url"),
    ("class A:\n    def _post(self): ...\nclass B(A, Client): ...", "Client._post"),
    ("def make():\n    class Mine(Client):\n        def _post(self): ...", "Client._post"),
    ("class Mine(some.package.Unknown):\n    def use(self):\n        return self._url", "some.package.Unknown._url"),
]
ALLOWED = [
    "import sys\nsys._current_frames()",
    "def use(row):\n    return row._replace(a=1)",
    "class Mine(Client):\n    def _ours(self):\n        return self._ours",
    "class Mine:\n    def __init__(self):\n        self._a = 1\n    def like(self, other):\n        return other._a",
    "class Mine(BaseModel):\n    __slots__ = ()\n    def __len__(self): ...",
    "for _ in 'ab':\n    pass",
]


class Client:
    """A class of a dependency, for the sources below."""

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


@pytest.mark.parametrize(("source", "name"), PLANTED)
def test_a_planted_use_is_found(source: str, name: str) -> None:
    assert {one.name for one in private_uses({"mine": HEAD + source})} == {name}


@pytest.mark.parametrize("source", ALLOWED)
def test_what_is_ours_or_public_is_not_found(source: str) -> None:
    assert private_uses({"mine": HEAD + source}) == []


def test_bases_are_found_through_modules_and_packages_of_ours() -> None:
    sources = {
        "ours.models": "from ours.models.client import Client",
        "ours.models.client": "from tests.unit.test_private_uses import Client as C\nclass Client(C): ...",
        "ours.use": "from ours.models import Client\nclass Mine(Client):\n    def _post(self): ...",
    }
    (found,) = private_uses(sources)
    assert (found.module, found.line, found.name) == ("ours.use", 3, "Client._post")

"""The tree of errors in the module docstring is the tree of classes."""

import re

from agentlearn import errors
from agentlearn.errors import AgentlearnError


def documented() -> dict[str, str]:
    """The base of each class that the docstring names, by indentation."""
    path, bases = ["Exception"], dict[str, str]()
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ((?:  )*)([A-Z]\w+)(?:  .*)?$", line):
            depth, name = len(match[1]) // 2 + 1, match[2]
            del path[depth:]
            bases[name] = path[-1]
            path.append(name)
    return bases


def defined(kind: type[AgentlearnError]) -> dict[str, str]:
    """The first base of this class and of each below it."""
    bases = {kind.__name__: kind.__bases__[0].__name__}
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            bases |= defined(child)
    return bases


def test_the_docstring_lists_every_error_under_its_base() -> None:
    assert documented() == defined(AgentlearnError)


def test_every_error_has_its_own_code() -> None:
    codes = [getattr(errors, name).code for name in defined(AgentlearnError)]
    assert len(codes) == len(set(codes))

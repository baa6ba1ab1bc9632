"""The syntax tree of a formula: numbers, symbols, and operations on them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """A number as it is written."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Symbol:
    """A letter, or one of the constants `pi`, `e`, `i` and `oo`."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation: `add`, `mul`, `div`, `pow`, `neg`, `root` (radicand, degree), `factorial`, `sin`, …

    `sum`, `prod` and `integral` take (variable, from, to, body); `lim` takes (variable, towards, body), and so do
    `lim+` and `lim-`, from one side.
    """

    op: str
    args: tuple["Node", ...]


Node: TypeAlias = Literal | Symbol | Apply

CONSTANTS = frozenset({"pi", "e", "i", "oo"})
BINDERS = frozenset({"sum", "prod", "integral", "lim", "lim+", "lim-"})


def nodes(node: Node) -> Iterator[Node]:
    """Yield the node and every node inside it."""
    yield node
    if isinstance(node, Apply):
        for arg in node.args:
            yield from nodes(arg)


def free_symbols(node: Node, bound: frozenset[str] = CONSTANTS) -> frozenset[str]:
    """Return the names of the letters that are unknowns."""
    if isinstance(node, Symbol):
        return frozenset() if node.name in bound else frozenset({node.name})
    if not isinstance(node, Apply):
        return frozenset()
    if node.op in BINDERS and isinstance(variable := node.args[0], Symbol):
        *outside, body = node.args[1:]
        inside = free_symbols(body, bound | {variable.name})
        return inside.union(*(free_symbols(arg, bound) for arg in outside))
    return frozenset[str]().union(*(free_symbols(arg, bound) for arg in node.args))


_CONSTANTS_ELSEWHERE = {"I": "i", "j": "i", "E": "e"}
"""How sympy and Python write constants."""


def with_constants_of(node: Node, other: Node) -> Node:
    """Return the node with `I`, `j` and `E` read as constants, where only the other node has the constant."""
    letters = free_symbols(node) & _CONSTANTS_ELSEWHERE.keys()
    if not letters:
        return node
    mine, theirs = _names(node), _names(other)
    names = {
        letter: constant
        for letter, constant in _CONSTANTS_ELSEWHERE.items()
        if letter in letters and letter not in theirs and constant in theirs and constant not in mine
    }
    return _renamed(node, names) if names else node


def _names(node: Node) -> frozenset[str]:
    """Return the letters and constants in the node; `exp` counts as `e`."""
    return frozenset(
        one.name if isinstance(one, Symbol) else "e"
        for one in nodes(node)
        if isinstance(one, Symbol) or (isinstance(one, Apply) and one.op == "exp")
    )


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    if isinstance(node, Symbol):
        return Symbol(names.get(node.name, node.name))
    return Apply(node.op, tuple(_renamed(arg, names) for arg in node.args)) if isinstance(node, Apply) else node

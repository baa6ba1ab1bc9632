"""The syntax tree of a formula: numbers, symbols, and operations on them."""

from collections.abc import Iterator
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

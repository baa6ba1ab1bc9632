"""How the members of a domain differ from those of its base class: which are set, misspelt, or of a wrong type."""

import inspect
from collections.abc import Iterator
from difflib import SequenceMatcher
from numbers import Real
from typing import Any

_CLOSE = 0.8
"""Similarity (difflib, 0..1) from which a name counts as a misspelt member."""
_CLOSE_START = 0.65
"""The same for a name that is the first word or words of a member, such as `pages` of `pages_seen`."""
_EMPTY = inspect.Parameter.empty
_SETTINGS: dict[str, type] = {
    "name": str,
    "description": str,
    "threshold": Real,
    "runs_itself": bool,
    "errors_are_failures": bool,
    "runs_code": bool,
    "uses_judge": bool,
    "rewards": tuple,
    "replayable": bool,
    "explains": bool,
    "reasons_by": str,
}
"""Members that are plain values, and their types."""
_NEEDED_FOR = {"runs_itself": "work", "runs_code": "with_sandbox", "uses_judge": "with_judge", "rewards": "with_reward"}
"""Values that only make sense together with a method."""


def all_members(base: type) -> tuple[str, ...]:
    """Return the names of all members of the base class: values first, then methods."""
    names = dict.fromkeys((*inspect.get_annotations(base), *vars(base)))
    return tuple(name for name in names if not name.startswith("_"))


def required_members(base: type) -> tuple[str, ...]:
    """Return the members that have no default."""
    abstract: frozenset[str] = getattr(base, "__abstractmethods__", frozenset())
    return tuple(name for name in all_members(base) if name in abstract or not hasattr(base, name))


def optional_members(domain: object, base: type) -> tuple[str, ...]:
    """Return the optional members that the domain overrides or sets to something other than their default."""
    optional = (name for name in all_members(base) if name not in required_members(base))
    return tuple(
        name
        for name in optional
        if (getattr(domain, name) != getattr(base, name) if name in _SETTINGS else _overridden(domain, base, name))
    )


def misspelt_members(domain: object, base: type) -> tuple[tuple[str, str], ...]:
    """Return each public attribute of the domain's class that looks like a misspelt member, with that member.

    A member that the class overrides under its right name is never the one that was meant.
    """
    members = all_members(base)
    open_members = [name for name in members if not _overridden(domain, base, name)]
    own = dict.fromkeys(name for kind in _kinds(domain, base) for name in vars(kind))
    names = (name for name in own if not name.startswith("_") and name not in members)
    near = ((name, max(open_members, key=lambda member: _likeness(name, member), default="")) for name in names)
    return tuple((name, member) for name, member in near if _is_close(name, member))


def method_signature(base: type, name: str) -> str:
    """Return how a method is called, such as `read(path, *, split='train', limit=None)`."""
    parameters = list(inspect.signature(getattr(base, name)).parameters.values())[1:]
    return f"{name}{_plain(parameters)}"


def member_faults(domain: object, base: type) -> Iterator[str]:
    """Yield one sentence for each member that is missing, misspelt, of a wrong type, or set without its partner."""
    missing = [name for name in required_members(base) if not hasattr(domain, name)]
    if missing:
        yield f"{type(domain).__name__} has no {', '.join(map(repr, missing))}; see docs/domains.md"
        return
    for found, meant in misspelt_members(domain, base):
        yield f"{found!r} is not a member of a domain; did you mean {meant!r}? Rename it, or start it with '_'"
    for name in all_members(base):
        yield from _value_faults(domain, name) if name in _SETTINGS else _method_faults(domain, base, name)
    for flag, method in _NEEDED_FOR.items():
        if getattr(domain, flag) and not _overridden(domain, base, method):
            yield f"it sets {flag!r}, so it needs `{method_signature(base, method)}`"
    for flag, method in (("uses_judge", "with_judge"), ("rewards", "with_reward")):
        if _overridden(domain, base, method) and not getattr(domain, flag):
            yield f"it has {method!r}, which is never called unless {flag!r} is set"


def _value_faults(domain: object, name: str) -> Iterator[str]:
    value, kind = getattr(domain, name), _SETTINGS[name]
    if not isinstance(value, kind) or (kind is Real and isinstance(value, bool)):
        yield f"{name} is {value!r}, not of {kind.__module__}.{kind.__qualname__}"
    elif name == "rewards" and not all(isinstance(one, str) for one in getattr(domain, name)):
        yield f"rewards is {value!r}, not a tuple of names"


def _method_faults(domain: object, base: type, name: str) -> Iterator[str]:
    method = getattr(domain, name)
    if not callable(method):
        yield f"{name} is {method!r}, but must be a method: `{method_signature(base, name)}`"
        return
    try:
        found = inspect.signature(method)
    except ValueError:  # built-in functions have none
        return
    if not all(_takes(found, call) for call in _calls(base, name)):
        taken = _plain(list(found.parameters.values()))
        yield f"{name} takes {taken}, but is called as `{method_signature(base, name)}`"


Call = tuple[tuple[object, ...], dict[str, object]]


def _calls(base: type, name: str) -> tuple[Call, Call]:
    """How the library may call a method: with every argument, and with the required ones only."""
    parameters = list(inspect.signature(getattr(base, name)).parameters.values())[1:]
    return _arguments(parameters), _arguments([one for one in parameters if one.default is _EMPTY])


def _arguments(parameters: list[inspect.Parameter]) -> Call:
    by_name = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
    return (None,) * (len(parameters) - len(by_name)), dict[str, object](by_name)


def _takes(signature: inspect.Signature, call: Call) -> bool:
    positional, by_name = call
    try:
        signature.bind(*positional, **by_name)
    except TypeError:
        return False
    return True


def _plain(parameters: list[inspect.Parameter]) -> inspect.Signature:
    return inspect.Signature([one.replace(annotation=_EMPTY) for one in parameters])


def _overridden(domain: object, base: type, name: str) -> bool:
    own: dict[str, Any] = getattr(domain, "__dict__", {})
    return name in own or any(name in vars(kind) for kind in _kinds(domain, base))


def _kinds(domain: object, base: type) -> Iterator[type]:
    """The classes of the domain, without the base class and what it inherits."""
    return (kind for kind in type(domain).__mro__ if kind not in base.__mro__)


def _likeness(name: str, member: str) -> float:
    return SequenceMatcher(None, name, member).ratio()


def _is_close(name: str, member: str) -> bool:
    likeness = _likeness(name, member)
    return likeness >= _CLOSE or (likeness >= _CLOSE_START and member.startswith(f"{name}_"))

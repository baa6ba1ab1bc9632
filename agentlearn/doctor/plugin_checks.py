"""Checks of the plug-ins of other packages: one line for each that is broken, ignored or in another's way."""

from collections.abc import Callable, Iterator
from functools import partial

from agentlearn.doctor.isolated import Check
from agentlearn.domain.check_result import CheckResult
from agentlearn.models.services import is_service
from agentlearn.plugins import Plugin, Refusal, announced, is_command, load, unreadable_packages

LIMIT_S = 15.0
"""Longest time for the import of one plug-in."""


def _free(_name: str) -> bool:
    return False


_GROUPS: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
    ("domain", "agentlearn.domains", _free),
    ("command", "agentlearn.commands", is_command),
    ("model service", "agentlearn.endpoints", is_service),
    ("skills", "agentlearn.skills", _free),
    ("lab model", "agentlearn.lab", _free),
)
"""Kind, entry-point group, and which names are reserved in it."""
_CALLED = ("agentlearn.commands", "agentlearn.endpoints")
"""Groups whose plug-ins are functions, or entries that name one."""


def plugin_checks() -> Iterator[Check]:
    """Yield the checks of plug-ins. Domains are only loaded by checks of their own."""
    yield Check("packages", _unreadable)
    for kind, group, reserved in _GROUPS:
        plugins = announced(group, reserved=reserved)
        for refused in plugins.refused:
            yield Check(f"{kind} {refused.name}", partial(_refused, kind, refused))
        for plugin in plugins.usable.values():
            if not plugin.own and kind != "domain":
                yield Check(f"{kind} {plugin.name}", partial(_loads, plugin, kind), LIMIT_S)


def _unreadable() -> Iterator[CheckResult]:
    for package in unreadable_packages():
        yield CheckResult(what=f"package {package.name}", state="note", words=package.why)


def _refused(kind: str, one: Refusal) -> Iterator[CheckResult]:
    yield CheckResult(what=f"{kind} {one.name}", state="note" if one.harmless else "broken", words=one.why)


def _loads(plugin: Plugin, kind: str) -> Iterator[CheckResult]:
    found = load(plugin, kind)
    if plugin.group in _CALLED and not callable(found) and not isinstance(found, tuple):
        words = f"{plugin.value} of the package {plugin.package!r} is {type(found).__name__!r} and not a function"
        yield CheckResult(what=f"{kind} {plugin.name}", state="broken", words=words)
        return
    yield CheckResult(what=f"{kind} {plugin.name}", state="ok", words=f"from the package {plugin.package!r}")

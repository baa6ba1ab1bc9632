"""A planted fault: one change of one source file of `agentlearn/train`, and the tests that should notice it."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path("agentlearn/train")
"""Folder of the sources, relative to the root of the project."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of one source file that makes it wrong."""

    name: str
    """What it breaks, in words."""
    file: str
    """Source file, relative to `agentlearn/train`."""
    old: str
    """Text that it replaces. It must occur exactly once in the file."""
    new: str
    tests: tuple[str, ...]
    """Test files or tests, relative to `tests`, that are run first."""
    equivalent: str = ""
    """Why no test can notice it; empty when one should."""


def planted(
    file: str, *tests: str, faults: Mapping[str, tuple[str, str]], equivalent: Mapping[str, str] | None = None
) -> tuple[Fault, ...]:
    """Return the faults of one file. faults: old and new text by name. equivalent: arguments by name of the fault."""
    reasons = equivalent or {}
    assert reasons.keys() <= faults.keys(), "an argument belongs to a fault"
    return tuple(Fault(name, file, old, new, tests, reasons.get(name, "")) for name, (old, new) in faults.items())


class LostAnchors(Exception):
    """Some faults cannot be planted, because their text is not found exactly once. The message lists them."""


def check_anchors(faults: Iterable[Fault], root: Path) -> None:
    """Raise LostAnchors for faults whose old text does not occur exactly once in their file."""
    faults = tuple(faults)
    lost = [f"{fault.file}: {fault.name}: {problem}" for fault in faults if (problem := _problem(fault, root))]
    repeated = [name for name, count in Counter(one.name for one in faults).items() if count > 1]
    lost += [f"two faults have the name {name!r}" for name in repeated]
    if lost:
        raise LostAnchors(
            f"{len(lost)} of {len(faults)} faults cannot be planted; correct their old text in"
            " tests/bench/planted_faults:\n" + "\n".join(lost)
        )


def with_fault(fault: Fault, root: Path) -> str:
    """Return the source of the fault's file with the fault in it."""
    return (root / PACKAGE / fault.file).read_text(encoding="utf-8").replace(fault.old, fault.new)


def _problem(fault: Fault, root: Path) -> str:
    """Return why a fault cannot be planted; empty when it can."""
    path = root / PACKAGE / fault.file
    if not path.is_file():
        return "there is no such file"
    source = path.read_text(encoding="utf-8")
    found = source.count(fault.old)
    if found == 0:
        return f"the text {_first_line(fault.old)!r} is gone{_similar(fault.old, source.splitlines())}"
    if found > 1:
        return f"the text {_first_line(fault.old)!r} occurs {found} times"
    try:
        compile(source.replace(fault.old, fault.new), str(path), "exec")
    except SyntaxError as error:
        return f"its new text is not Python: {error}"
    return ""


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _similar(old: str, lines: Sequence[str]) -> str:
    """Return the line that is most like the old text, to make correcting easy."""
    near = difflib.get_close_matches(_first_line(old), [line.strip() for line in lines], n=1, cutoff=0.5)
    return f"; most like it is now {near[0]!r}" if near else ""

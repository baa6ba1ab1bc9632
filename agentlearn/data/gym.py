"""Tasks of reasoning-gym: `gym:TASK[?size=100&seed=0]`, generated here and scored by their own scorers.

An entry can be built again from its name, options and number, so `Task.source` is all that scoring needs.
"""

import random
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode

from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError, MissingExtra, VerifierError


class _EvaluationRefused(BaseException):
    """Raised where a text was to be evaluated as Python. Scorers catch Exception, so it is none."""


@dataclass(frozen=True, slots=True, eq=False)
class _Guard:
    """Stops code that a scorer starts: in its own thread, and in threads that are newer than the guard."""

    own: int = field(default_factory=threading.get_ident)
    others: frozenset[int | None] = field(default_factory=lambda: frozenset(one.ident for one in threading.enumerate()))
    refused: list[str] = field(default_factory=list[str])

    def concerns(self, thread: int) -> bool:
        return thread == self.own or thread not in self.others


_guards: set[_Guard] = set()


@contextmanager
def _nothing_evaluated() -> Generator[None]:
    """Let the block evaluate no text as Python. Raises _EvaluationRefused, also when the block caught the first one."""
    _install_hook()
    guard = _Guard()
    _guards.add(guard)
    try:
        yield
    finally:
        _guards.remove(guard)
    if guard.refused:
        raise _EvaluationRefused(guard.refused[0])


@cache
def _install_hook() -> None:
    """Python offers no way to remove such a hook; it does nothing without a guard."""
    sys.addaudithook(_refuse_evaluation)


def _refuse_evaluation(event: str, arguments: tuple[object, ...]) -> None:
    if not _guards or event not in _STARTS_CODE:
        return
    if event == "exec" and not getattr(arguments[0], "co_filename", "<").startswith("<"):
        return  # a module that is imported: its code names a file, that of an evaluated text does not
    here = threading.get_ident()
    for guard in tuple(_guards):
        if guard.concerns(here):
            guard.refused.append(event)
            raise _EvaluationRefused(event)


_STARTS_CODE = frozenset(
    {"exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec", "subprocess.Popen"}
)
"""Audit events of Python: code that runs here, or in a process, where this cannot watch it."""

GYM = "gym:"
DEFAULT_SIZE = 100


class _Entries(Protocol):
    """The dataset that `reasoning_gym.create_dataset` returns."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> dict[str, Any]: ...
    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        """Return the score (0..1) of one answer to one entry."""
        ...


@dataclass(frozen=True, slots=True)
class _Gym:
    """A task of reasoning-gym with its options."""

    name: str
    options: tuple[tuple[str, int | float | bool | str], ...]
    """Sorted by name; always contains `size` and `seed`."""

    def __str__(self) -> str:
        return f"{GYM}{self.name}?{urlencode(self.options)}"


def parse_gym(source: str) -> _Gym:
    """Return task and options of `gym:TASK?NAME=VALUE&…`. Raises DataError."""
    name, _, query = source.removeprefix(GYM).partition("?")
    if not re.fullmatch(r"\w+", name):
        raise DataError(f"{source!r} does not name a task; write 'gym:TASK', such as 'gym:chain_sum?size=100&seed=0'")
    try:
        given = dict(parse_qsl(query, strict_parsing=True)) if query else {}
    except ValueError as error:
        raise DataError(f"{source!r} has the options {query!r}; write them as 'size=100&seed=0'") from error
    for key, least in (("seed", 0), ("size", 1)):
        if key in given and not (given[key].isdecimal() and int(given[key]) >= least):
            raise DataError(f"{source!r} has the {key} {given[key]!r}; give a whole number from {least}")
    options = {"seed": 0, "size": DEFAULT_SIZE} | {key: _option(value) for key, value in given.items()}
    return _Gym(name, tuple(sorted(options.items())))


def gym_rows(source: str) -> Iterator[SourceRow]:
    """Yield the task's entries, the same for the same options. Raises DataError or MissingExtra."""
    gym = parse_gym(source)
    entries = dataset_entries(gym)
    for number in range(len(entries)):
        entry = _entry(entries, number)
        # Not by iterating: that adds a random id to each entry.
        yield SourceRow(
            f"{gym}#{number}", {"question": entry["question"], "answer": entry["answer"], "family": gym.name}
        )


def scorer(source: str) -> Callable[[str | None], float]:
    """Return the scorer (0..1) of the entry at a place such as `gym:chain_sum?seed=0&size=100#12`.

    It runs in the calling process without a time limit; `agentlearn.domain.custom` calls it in a child process. Several
    scorers evaluate the answer as Python, most through sympy's parser. An answer that could call something is stopped
    there, before it is evaluated: VerifierError. Scorers that only compare texts judge it like any other.
    """
    place, _, number = source.rpartition("#")
    entries = dataset_entries(parse_gym(place))
    entry = _entry(entries, int(number))

    def score(answer: str | None) -> float:
        if answer is None or not answer.strip():
            return 0.0
        if answer.strip() == str(entry["answer"]).strip():
            return 1.0
        if not _could_call(answer):
            return float(entries.score_answer(answer.strip(), entry))
        try:
            with _nothing_evaluated():
                return float(entries.score_answer(answer.strip(), entry))
        except _EvaluationRefused as error:
            raise VerifierError(
                f"an answer of {len(answer)} characters could run code in the scorer of {place!r}"
            ) from error

    return score


def _could_call(answer: str) -> bool:
    """Whether Python could call something or read an attribute when it evaluates the text."""
    calls = (found[1] or found[2] for found in _CALL.finditer(answer))
    return "__" in answer or bool(_ATTRIBUTE.search(answer)) or any(name not in _FUNCTIONS for name in calls)


_CALL = re.compile(r"(?:(\w+)|([\])}\"'`]))\s*\(")
_ATTRIBUTE = re.compile(r"\.\s*[^\W\d]")
_FUNCTIONS = frozenset(
    {"sin", "cos", "tan", "exp", "log", "ln", "sqrt", "asin", "acos", "atan", "sinh", "cosh", "tanh"}
)


def _entry(entries: _Entries, number: int) -> dict[str, Any]:
    """Return an entry, the same each time. Some tasks also draw from Python's shared generator, without a seed."""
    before = random.getstate()
    random.seed(number)
    try:
        return entries[number]
    finally:
        random.setstate(before)


@lru_cache(maxsize=8)
def dataset_entries(gym: _Gym) -> _Entries:
    try:
        import reasoning_gym  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra(
            f"reading 'gym:{gym.name}' needs reasoning-gym: pip install 'agentlearn-lib[gym]'"
        ) from error
    try:
        return reasoning_gym.create_dataset(gym.name, **dict(gym.options))
    except (ValueError, TypeError, AssertionError) as error:
        raise DataError(
            f"'{gym}' cannot be created ({error}); check the task's name and options", code="gym"
        ) from error


def _option(text: str) -> int | float | bool | str:
    if text in {"true", "false"}:
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

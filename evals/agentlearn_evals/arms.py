"""Parses arms. An arm is a library with, optionally, its own model, instructions, temperature and left-out lessons.

none                                    no lessons
math, math@7f3c, lessons.json           a library
mine=math,model=openai:gpt-5-mini       with its own name and model
math,instructions=prompt.md             with other instructions for the agent
math,without=4424dffe+91ab03cd          without some lessons, given by id
math@all                                one arm for every published version of a library
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from agentlearn.config import Temperature
from agentlearn.errors import ConfigError
from agentlearn.files import readable
from agentlearn.library import LibraryStore
from agentlearn.measure.score_table import ScoreTable
from agentlearn.stats import two_way_mean
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId
from agentlearn.types.value import Value
from agentlearn_evals.comparison import MethodLine

_KEYS = ("model", "temperature", "instructions", "without")
_NAME = re.compile(r"\w[\w.@:/#-]{0,99}")
ALL = "@all"


class Arm(Value):
    """One arm, with its library and instructions loaded."""

    name: str
    model: str
    reference: str
    """The library reference as the user wrote it."""
    library: Library
    without: tuple[ExperienceId, ...] = ()
    """Ids of lessons that are left out, sorted."""
    temperature: Temperature
    instructions: str = ""
    """Instructions in place of the agent's own; empty: the agent's own."""

    def label(self) -> str:
        """Return the arm in words: model, library, temperature."""
        lessons = f"library {self.reference}" if len(self.library) else "no lessons"
        if self.without:
            lessons += f" without {len(self.without)} of them"
        instructions = ", other instructions" if self.instructions else ""
        return f"{self.model}, {lessons}, {temperature_words(self.temperature)}{instructions}"


def resolve_arms(
    texts: Sequence[str], *, models: Sequence[str], temperature: float | None, library_store: LibraryStore
) -> tuple[Arm, ...]:
    """Return the arms in order.

    Raises ConfigError for an unknown key, a name used twice, two equal arms, or fewer than two arms.
    """
    return checked_arms(
        [
            arm
            for text in texts
            for arm in parse_arms(text, models=models, temperature=temperature, library_store=library_store)
        ]
    )


def parse_arms(
    text: str, *, models: Sequence[str], temperature: float | None, library_store: LibraryStore
) -> list[Arm]:
    """Return the arms that one text stands for. Raises ConfigError."""
    return [
        arm
        for one in _expand_versions(text, library_store)
        for arm in _parse_arm(one, models=models, temperature=temperature, library_store=library_store)
    ]


def checked_arms(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms. Raises ConfigError for a name used twice, two equal arms, or fewer than two arms."""
    twice = [name for name, count in Counter(arm.name for arm in arms).items() if count > 1]
    if twice:
        raise ConfigError(
            f"two arms are named {twice[0]!r}; rename one of them, as in other={twice[0]},…", code="arm_twice"
        )
    if len(arms) < 2:
        raise ConfigError(
            f"there is only one arm, {arms[0].name!r}; give two or more, the baseline first, such as:"
            f" agentlearn compare none {arms[0].reference if len(arms[0].library) else 'math'}",
            code="one_arm",
        )
    same: dict[str, str] = {}
    for arm in arms:
        other = same.setdefault(arm.model_copy(update={"name": "", "reference": ""}).model_dump_json(), arm.name)
        if other != arm.name:
            raise ConfigError(
                f"the arms {other!r} and {arm.name!r} differ only in their names; leave one out", code="arm_twice"
            )
    return tuple(arms)


def baseline_first(names: Sequence[str], baseline: str | None) -> list[str]:
    """Return the names of arms, that of the baseline first; as they are when it is None. Raises ConfigError."""
    if baseline is not None and baseline not in names:
        raise ConfigError(
            f"there is no arm {baseline!r} to be the baseline (arms: {', '.join(map(repr, names))}); name one of these"
            " with --baseline",
            code="unknown_arm",
        )
    return sorted(names, key=lambda name: baseline is not None and name != baseline)


def named_pairs(texts: Sequence[str], names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of arms to compare, as (baseline, arm), each once. names: all arms, the baseline first.

    texts: `ARM:ARM` each, or `all`; none: every other arm with the first. Raises ConfigError for an unknown arm, a pair
    given twice, and an arm that is in no pair.
    """
    if not texts:
        return tuple((names[0], name) for name in names[1:])
    if "all" in texts:
        return tuple(combinations(names, 2))
    known = ", ".join(map(repr, names))
    pairs: list[tuple[str, str]] = []
    for text in texts:
        cuts = [(text[:at], text[at + 1 :]) for at, sign in enumerate(text) if sign == ":"]
        found = [(first, second) for first, second in cuts if first in names and second in names and first != second]
        if len(found) != 1:
            raise ConfigError(
                f"the pair {text!r} does not name two arms; give ARM:ARM, the one that counts as the baseline first, or"
                f" all (arms: {known})",
                code="bad_pair",
            )
        if {*found[0]} in [{*pair} for pair in pairs]:
            raise ConfigError(f"the pair {text!r} is given twice; give it once", code="bad_pair")
        pairs += found
    if alone := [name for name in names if not any(name in pair for pair in pairs)]:
        raise ConfigError(
            f"the arm {alone[0]!r} is in no pair; add a pair with it, or name only the arms of the pairs",
            code="bad_pair",
        )
    return tuple(pairs)


def _expand_versions(text: str, library_store: LibraryStore) -> list[str]:
    """Return the arm's text; for `NAME@all`, one text per published version, oldest first."""
    first, comma, rest = text.partition(",")
    if not first.endswith(ALL):
        return [text]
    name = first.removesuffix(ALL)
    return [f"{name}@{one.version[:8]}{comma}{rest}" for one in reversed(library_store.log(name))]


def _parse_arm(
    text: str, *, models: Sequence[str], temperature: float | None, library_store: LibraryStore
) -> list[Arm]:
    """Return one arm; or one per model when the text names no model."""
    first, *rest = [part.strip() for part in text.split(",")]
    name, equals, reference = first.partition("=")
    if not equals:
        name, reference = "", first
    elif name in _KEYS:
        name, reference, rest = "", "none", [first, *rest]
    given = _settings(text, rest)
    library = library_store.load(reference)
    default = name or _default_name(reference, library, given)
    model_given = given.get("model")
    chosen = [model_given] if model_given else list(models)
    return [
        Arm(
            name=checked_name(default if len(chosen) == 1 else f"{default}:{model}"),
            model=model,
            reference=reference,
            library=library,
            without=_without(given.get("without", ""), library, text),
            temperature=_temperature(given["temperature"], text) if "temperature" in given else temperature,
            instructions=_instructions(given["instructions"]) if "instructions" in given else "",
        )
        for model in chosen
    ]


def _settings(text: str, parts: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or key not in _KEYS or not value:
            raise ConfigError(
                f"the arm {text!r} has {part!r}; only these may follow the library:"
                f" {', '.join(f'{one}=…' for one in _KEYS)}",
                code="bad_arm",
            )
        if key in given:
            raise ConfigError(f"the arm {text!r} gives {key} twice; give it once", code="bad_arm")
        given[key] = value
    return given


def _default_name(reference: str, library: Library, given: dict[str, str]) -> str:
    stem = Path(reference).stem if "/" in reference or reference.endswith(".json") else reference
    parts = [stem if len(library) or not given else ""]
    parts += [Path(value).stem if key == "instructions" else value for key, value in given.items() if key != "without"]
    if "without" in given:
        parts.append(f"without-{given['without']}")
    return "-".join(part for part in parts if part).replace("+", "-")


def checked_name(name: str) -> str:
    """Return the name of an arm. Raises ConfigError for an invalid one."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a valid arm name; use letters, digits, '.', '-' and '_', as in mine=…",
            code="bad_arm",
        )
    return name


def _without(text: str, library: Library, arm: str) -> tuple[ExperienceId, ...]:
    left_out: set[ExperienceId] = set()
    for prefix in filter(None, text.split("+")):
        found = [one for one in library.by_id if one.startswith(prefix)]
        if len(found) != 1:
            what = "no lesson" if not found else f"{len(found)} lessons"
            raise ConfigError(
                f"the arm {arm!r} leaves out {prefix!r}, which matches {what} of the library;"
                " `agentlearn library show NAME` lists their ids",
                code="unknown_lesson",
            )
        left_out.update(found)
    return tuple(sorted(left_out))


def temperature_words(temperature: float | None) -> str:
    """Return the temperature in words."""
    return "no temperature sent" if temperature is None else f"temperature {temperature:g}"


def _temperature(text: str, arm: str) -> float | None:
    if text.strip().lower() == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:
        raise ConfigError(
            f"the arm {arm!r} has the temperature {text!r}; give a number from 0 to 2, or none", code="bad_arm"
        )
    return value


def _instructions(file: str) -> str:
    try:
        words = readable(Path(file)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the instructions {file!r} cannot be read: {error}", code="no_instructions") from error
    if not words.strip():
        raise ConfigError(f"the instructions {file!r} are empty; write instructions for the agent", code="bad_arm")
    return words


def parse_methods(texts: Sequence[str], arms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse `NAME=ARM+ARM+…` into arms by method name.

    arms: all arms, the baseline first. Raises ConfigError for an unknown arm, the baseline, or fewer than two arms.
    """
    methods: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, members = text.partition("=")
        named = tuple(filter(None, members.split("+")))
        unknown = [one for one in named if one not in arms[1:]]
        if not equals or not name or len(set(named)) < 2 or unknown:
            known = ", ".join(arms[1:])
            raise ConfigError(
                f"the method {text!r} must name two or more different arms, as in NAME=A+B (not the baseline; arms:"
                f" {known})",
                code="bad_method",
            )
        if name in methods:
            raise ConfigError(
                f"two methods are named {name!r}; rename one of them, or join their arms by +", code="bad_method"
            )
        methods[name] = named
    return methods


def method_lines(table: ScoreTable, methods: Mapping[str, Sequence[str]], level: float) -> tuple[MethodLine, ...]:
    """Return the difference of each method from the baseline.

    The interval allows for chance in the choice of tasks and in the seeds of learning.
    """
    return tuple(_method_line(table, name, arms, level) for name, arms in methods.items())


def _method_line(table: ScoreTable, name: str, arms: Sequence[str], level: float) -> MethodLine:
    differences = [value for arm in arms for value in table.differences(arm, table.arms[0])]
    tasks = [cluster for _ in arms for cluster in table.clusters()]
    seeds = [arm for arm in arms for _ in table.tasks]
    estimate = two_way_mean(differences, tasks, seeds, level=level)
    return MethodLine(
        method=name,
        arms=tuple(arms),
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        standard_error=estimate.standard_error,
        degrees=estimate.degrees,
        tasks=len(table.tasks),
        note=estimate.unsafe or f"{len(arms)} learning seeds: the interval covers other seeds and other tasks",
    )

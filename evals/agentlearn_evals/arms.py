"""Arms, as texts and as a program gives them.

An arm is a library with, optionally, its own model, instructions, temperature and left-out lessons.

none                                    no lessons
math, math@7f3c, lessons.json           a library
mine=math,model=openai:gpt-5-mini       with its own name and model
math,instructions=prompt.md             with other instructions for the agent
math,without=4424dffe+91ab03cd          without some lessons, given by id
math@all                                one arm for every published version of a library
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentlearn.config import Temperature
from agentlearn.errors import ConfigError
from agentlearn.learning.subject import Subject, named_model
from agentlearn.library import NO_LIBRARY, LibraryStore
from agentlearn.library.history.change_log import names_file
from agentlearn.library.store import library_from
from agentlearn.text.files import readable
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId
from agentlearn.types.trajectory import Treatment
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_KEYS = ("model", "temperature", "instructions", "without")
_NAME = re.compile(r"\w[\w.@:/#-]{0,99}")
_ALL = "@all"


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
    control: Literal["", "again", "placebo", "history"] = ""
    """What the arm is a control of; empty for an arm that is compared. `again`: another arm once more."""

    def label(self) -> str:
        """Return the arm in words: model, library, temperature."""
        lessons = f"library {self.reference}" if len(self.library) else "no lessons"
        if self.without:
            lessons += f" without {len(self.without)} of them"
        instructions = ", other instructions" if self.instructions else ""
        return f"{self.model}, {lessons}, {self.temperature_words}{instructions}"

    @property
    def temperature_words(self) -> str:
        """The temperature in words."""
        return "no temperature sent" if self.temperature is None else f"temperature {self.temperature:g}"

    def on(self, model: str) -> "Arm":
        """Return the arm with this model where it names none."""
        return self if self.model else self.model_copy(update={"model": model})

    @property
    def treatment(self) -> Treatment:
        """The treatment of the arm's rollouts. It does not contain the arm's name, so equal arms share rollouts."""
        model, library, masked = self.model, self.library.version, self.without
        return Treatment(model=model, library=library, masked=masked, arm="compare", temperature=self.temperature)


def learned_names(arms: Sequence[Arm], library_store: LibraryStore) -> frozenset[str]:
    """Return the names of the store's libraries that arms read."""
    return frozenset(arm.reference.partition("@")[0] for arm in arms) & frozenset(library_store.names())


def refuse_alike(arms: Sequence[Arm]) -> None:
    """Raise ConfigError for a name that is used twice, and for two arms that differ in nothing else."""
    names, same = set[str](), dict[str, str]()
    for arm in arms:
        if arm.name in names:
            raise ConfigError(
                f"two arms are named {arm.name!r}; rename one of them, as in other={arm.name},…, or see with --controls"
                " how much an arm differs from itself"
            )
        names.add(arm.name)
        other = same.setdefault(arm.model_copy(update={"name": "", "reference": ""}).model_dump_json(), arm.name)
        if other != arm.name:
            raise ConfigError(
                f"the arms {other!r} and {arm.name!r} differ only in their names; leave one out, or see with --controls"
                " how much an arm differs from itself"
            )


def baseline_first(names: Sequence[str], baseline: str | None) -> list[str]:
    """Return the names of arms, that of the baseline first; as they are when it is None. Raises ConfigError."""
    if baseline is not None and baseline not in names:
        raise ConfigError(
            f"there is no arm {baseline!r} to be the baseline (arms: {', '.join(map(repr, names))}); name one of these"
            " with --baseline"
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
                f" all (arms: {known})"
            )
        if {*found[0]} in [{*pair} for pair in pairs]:
            raise ConfigError(f"the pair {text!r} is given twice; give it once")
        pairs += found
    if alone := [name for name in names if not any(name in pair for pair in pairs)]:
        raise ConfigError(f"the arm {alone[0]!r} is in no pair; add a pair with it, or name only the arms of the pairs")
    return tuple(pairs)


def _checked_name(name: str) -> str:
    """Return the name of an arm. Raises ConfigError for an invalid one."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a valid arm name; use letters, digits, '.', '-' and '_', as in mine=…")
    return name


@dataclass(frozen=True, slots=True)
class _ArmText:
    """One arm as the user wrote it, split into its parts."""

    text: str
    name: str
    """Empty when the arm gives none."""
    reference: str
    given: Mapping[str, str]
    """Values by key, see `_KEYS`."""

    @staticmethod
    def parse(text: str) -> "_ArmText":
        """Split a text. Raises ConfigError for an unknown key or one that is given twice."""
        first, *rest = [part.strip() for part in text.split(",")]
        name, equals, reference = first.partition("=")
        if not equals:
            name, reference = "", first
        elif name in _KEYS:
            name, reference, rest = "", "none", [first, *rest]
        given: dict[str, str] = {}
        for part in rest:
            key, equals, value = part.partition("=")
            if not equals or key not in _KEYS or not value:
                raise ConfigError(
                    f"the arm {text!r} has {part!r}; only these may follow the library:"
                    f" {', '.join(f'{one}=…' for one in _KEYS)}"
                )
            if key in given:
                raise ConfigError(f"the arm {text!r} gives {key} twice; give it once")
            given[key] = value
        return _ArmText(text, name, reference, given)

    def name_for(self, reference: str, library: Library) -> str:
        """Return the arm's name; without one, what tells it from others."""
        stem = Path(reference).stem if names_file(reference) else reference
        parts = [stem if len(library) or not self.given else ""]
        others = {key: value for key, value in self.given.items() if key != "without"}
        parts += [Path(value).stem if key == "instructions" else value for key, value in others.items()]
        if "without" in self.given:
            parts.append(f"without-{self.given['without']}")
        return self.name or "-".join(filter(None, parts)).replace("+", "-")

    def without(self, library: Library) -> tuple[ExperienceId, ...]:
        """Return the ids of the lessons that are left out. Raises ConfigError for one that is not clear."""
        left_out: set[ExperienceId] = set()
        for prefix in filter(None, self.given.get("without", "").split("+")):
            found = [one for one in library.by_id if one.startswith(prefix)]
            if len(found) != 1:
                what = "no lesson" if not found else f"{len(found)} lessons"
                raise ConfigError(
                    f"the arm {self.text!r} leaves out {prefix!r}, which matches {what} of the library;"
                    " `agentlearn library show NAME` lists their ids",
                    code="unknown_lesson",
                )
            left_out.update(found)
        return tuple(sorted(left_out))

    def temperature(self, default: float | None) -> float | None:
        """Return the temperature. Raises ConfigError for one that is none."""
        written = self.given.get("temperature")
        if written is None or written.strip().lower() == "none":
            return default if written is None else None
        try:
            value = float(written)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 2:
            raise ConfigError(
                f"the arm {self.text!r} has the temperature {written!r}; give a number from 0 to 2, or none"
            )
        return value

    def instructions(self) -> str:
        """Return the instructions from their file; empty without any. Raises ConfigError."""
        file = self.given.get("instructions")
        if file is None:
            return ""
        try:
            words = readable(Path(file)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the instructions {file!r} cannot be read: {error}") from error
        if not words.strip():
            raise ConfigError(f"the instructions {file!r} are empty; write instructions for the agent")
        return words


@dataclass(frozen=True, slots=True)
class ArmReader:
    """Reads the arms of a program or a command line."""

    models: Sequence[tuple[str, str]]
    """The models of arms that name none: the label of each, and the name under which it is recorded; both empty where
    these are not known yet, see `Arm.on`."""
    temperature: float | None
    libraries: LibraryStore
    objects: "dict[str, Model]" = field(default_factory=dict[str, "Model"])
    """The models that were given as objects, also as arms, by the names under which they are recorded."""

    @staticmethod
    def of(
        subject: Subject,
        given: "Model | str | Mapping[str, Model | str] | None",
        temperature: float | None,
        libraries: LibraryStore,
    ) -> "ArmReader":
        """Return a reader with the given model or models, else the subject's own. Raises ConfigError for none."""
        if not isinstance(given, Mapping):
            chosen = subject.chosen_model(given, needed=False)
            given = {named_model(chosen): chosen}
        if not given:
            raise ConfigError("model= is empty; give at least one model, or leave it out")
        models = list[tuple[str, str]]()
        reader = ArmReader(models, temperature, libraries)
        for label, model in given.items():
            models.append((label, model if isinstance(model, str) else reader._recorded(label, model)))
        return reader

    def arms(self, given: Any, *, fewest: int = 2) -> tuple[Arm, ...]:
        """Return the arms of a program or a command line in order.

        given: texts, libraries and files; or a mapping from names to those, lessons in words, models, or None. None:
        one arm per model. Raises ConfigError, also for fewer arms than `fewest`, or LibraryError.
        """
        if given is None:
            arms = [self._arm(label, name) for label, name in self.models]
        elif isinstance(given, Mapping):
            arms = [arm for name, one in given.items() for arm in self._named(_checked_name(str(name)), one)]
        else:
            several = (given,) if isinstance(given, str | Library | Path) else given
            arms = [arm for one in several for arm in self._unnamed(one)]
        if len(arms) < fewest:
            one = f"only one arm, {arms[0].name!r}" if arms else "no arm"
            raise ConfigError(f"there is {one}; give two or more, the baseline first, such as 'none' and 'math'")
        return tuple(arms)

    def _parsed(self, text: str) -> list[Arm]:
        """Return the arms that one text stands for: one per published version, and per model where it names none."""
        parts, arms = _ArmText.parse(text), list[Arm]()
        references = [parts.reference]
        if not parts.name and parts.reference.endswith(_ALL):
            base = parts.reference.removesuffix(_ALL)
            references = [f"{base}@{one.version[:8]}" for one in reversed(self.libraries.log(base))]
        chosen = [parts.given["model"]] if "model" in parts.given else [label for label, _ in self.models]
        for one in references:
            library = self.libraries.load(one)
            name = parts.name_for(one, library)
            for model in chosen:
                arm = Arm(
                    name=_checked_name(name if len(chosen) == 1 else f"{name}:{model}"),
                    model=dict(self.models).get(model, model),
                    reference=one,
                    library=library,
                    without=parts.without(library),
                    temperature=parts.temperature(self.temperature),
                    instructions=parts.instructions(),
                )
                arms.append(arm)
        return arms

    def _unnamed(self, given: Any) -> list[Arm]:
        """Return the arm or arms of a text, a library or a file."""
        match given:
            case str():
                return self._parsed(given)
            case Library():
                return self._of_library(given.version[:8] if len(given) else NO_LIBRARY, given)
            case Path():
                return self._of_library(_checked_name(given.stem), given)
            case _:
                raise ConfigError(
                    f"the arm {given!r} is neither a text, a library nor a file; give a mapping from names, such as"
                    " arms={'none': None, 'mine': …}"
                )

    def _named(self, name: str, given: Any) -> list[Arm]:
        """Return the arm of that name; several where it runs on several models."""
        from pydantic_ai.models import Model

        if isinstance(given, Model):
            return [self._arm(name, self._recorded(name, given))]
        if not isinstance(given, str):
            return self._of_library(name, given)
        found = self._parsed(given)
        names = [name] if len(found) == 1 else [_checked_name(f"{name}:{arm.name}") for arm in found]
        return [arm.model_copy(update={"name": own}) for arm, own in zip(found, names, strict=True)]

    def _of_library(self, name: str, given: Any) -> list[Arm]:
        library, several = library_from(given, self.libraries), len(self.models) > 1
        shown = str(given) if isinstance(given, Path) else library.version[:12] if len(library) else NO_LIBRARY
        named = [(f"{name}:{label}" if several else name, model) for label, model in self.models]
        return [self._arm(own, model, shown, library) for own, model in named]

    def _arm(self, name: str, model: str, reference: str = NO_LIBRARY, library: Library | None = None) -> Arm:
        """Return an arm; without a library, one without lessons."""
        library = Library() if library is None else library
        name, temperature = _checked_name(name), self.temperature
        return Arm(name=name, model=model, reference=reference, library=library, temperature=temperature)

    def _recorded(self, label: str, model: "Model") -> str:
        """Keep a model, and return the name under which it is recorded: its own, unless another one has that name."""
        name = named_model(model)
        name = name if self.objects.get(name, model) is model else f"{name}#{label}"
        self.objects[name] = model
        return name

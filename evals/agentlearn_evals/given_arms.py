"""Arms as a program gives them: texts, libraries, files, lessons in words, or models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError
from agentlearn.learning.subject import Subject, named_model
from agentlearn.library import NO_LIBRARY, LibraryStore
from agentlearn.library.store import library_from
from agentlearn.types.experience import Library
from agentlearn_evals.arms import Arm, checked_arms, checked_name, parse_arms

if TYPE_CHECKING:
    from pydantic_ai.models import Model


@dataclass(frozen=True, slots=True)
class ArmModels:
    """The models of the arms that name none."""

    names: Mapping[str, str]
    """Names under which the models are recorded, by their labels."""
    objects: "Mapping[str, Model]"
    """The models that were given as objects, by their names."""

    @staticmethod
    def of(subject: Subject, given: "Model | str | Mapping[str, Model | str] | None") -> "ArmModels":
        """Return the given model or models, else the subject's own. Raises ConfigError when there is none."""
        if not isinstance(given, Mapping):
            chosen = subject.chosen_model(given, needed=False)
            given = {named_model(chosen): chosen}
        if not given:
            raise ConfigError("model= is empty; give at least one model, or leave it out", code="no_model")
        names, objects = dict[str, str](), dict[str, "Model"]()
        for label, model in given.items():
            name = named_model(model)
            if not isinstance(model, str):
                name = _free_name(name, label, model, objects)
                objects[name] = model
            names[label] = name
        return ArmModels(names, objects)


def _free_name(name: str, label: str, model: "Model", taken: "Mapping[str, Model]") -> str:
    """Return the model's name, with the label where another model has the same name."""
    return name if taken.get(name, model) is model else f"{name}#{label}"


@dataclass(frozen=True, slots=True)
class GivenArms:
    """The arms of a comparison."""

    arms: tuple[Arm, ...]
    models: "Mapping[str, Model]"
    """The models that were given as arms, by the names under which they are recorded."""


def arms_from(given: Any, models: ArmModels, temperature: float | None, libraries: LibraryStore) -> GivenArms:
    """Return the arms in order. Raises ConfigError or LibraryError."""
    reader = _ArmReader(models, temperature, libraries, dict(models.objects))
    if given is None:
        arms = [reader.bare(label, name) for label, name in models.names.items()]
    elif isinstance(given, Mapping):
        arms = [arm for name, one in given.items() for arm in reader.named(checked_name(str(name)), one)]
    elif isinstance(given, str | Library | Path):
        raise ConfigError(
            f"arms={given!r} is one arm; give two or more, the baseline first, such as arms=('none', 'support')",
            code="one_arm",
        )
    else:
        arms = [arm for one in given for arm in reader.unnamed(one)]
    if len(arms) < 2:
        named = f" ({arms[0].name!r})" if arms else ""
        raise ConfigError(
            f"there are fewer than two arms{named}; give the baseline and another, such as"
            " arms=('none', 'support') or model={'small': …, 'large': …}",
            code="one_arm",
        )
    return GivenArms(checked_arms(arms), reader.objects)


def texts_of(arms: Sequence[Arm]) -> tuple[str, ...]:
    """Return the arms as texts for the record."""
    return tuple(f"{arm.name}={arm.reference},model={arm.model}" for arm in arms)


@dataclass(frozen=True, slots=True)
class _ArmReader:
    """Reads arms one at a time, and collects the models among them in `objects`."""

    models: ArmModels
    temperature: float | None
    libraries: LibraryStore
    objects: "dict[str, Model]"

    def unnamed(self, given: Any) -> list[Arm]:
        """Return the arm or arms of a text, a library or a file."""
        match given:
            case str():
                return self._text(given)
            case Library():
                return self._library(given.version[:8] if len(given) else NO_LIBRARY, given)
            case Path():
                return self._library(checked_name(given.stem), given)
            case _:
                raise ConfigError(
                    f"the arm {given!r} is neither a text, a library nor a file; give a mapping from names, such as"
                    " arms={'none': None, 'mine': …}",
                    code="bad_arm",
                )

    def named(self, name: str, given: Any) -> list[Arm]:
        """Return the arm of that name; several where it runs on several models."""
        from pydantic_ai.models import Model

        if isinstance(given, Model):
            recorded = _free_name(named_model(given), name, given, self.objects)
            self.objects[recorded] = given
            return [self.bare(name, recorded)]
        if not isinstance(given, str):
            return self._library(name, given)
        found = self._text(given)
        if len(found) == 1:
            return [found[0].model_copy(update={"name": name})]
        return [arm.model_copy(update={"name": checked_name(f"{name}:{arm.name}")}) for arm in found]

    def bare(self, name: str, model: str) -> Arm:
        """Return an arm without lessons."""
        return self._arm(name, model, NO_LIBRARY, Library())

    def _text(self, text: str) -> list[Arm]:
        labels = list(self.models.names)
        found = parse_arms(text, models=labels, temperature=self.temperature, library_store=self.libraries)
        names = self.models.names
        return [arm.model_copy(update={"model": names.get(arm.model, arm.model)}) for arm in found]

    def _library(self, name: str, given: Any) -> list[Arm]:
        library = library_from(given, self.libraries)
        shown = str(given) if isinstance(given, Path) else library.version[:12] if len(library) else NO_LIBRARY
        several = len(self.models.names) > 1
        return [
            self._arm(checked_name(f"{name}:{label}") if several else name, model, shown, library)
            for label, model in self.models.names.items()
        ]

    def _arm(self, name: str, model: str, reference: str, library: Library) -> Arm:
        return Arm(
            name=checked_name(name), model=model, reference=reference, library=library, temperature=self.temperature
        )

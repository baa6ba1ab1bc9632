"""What the data types are made of: the frozen base class, who wrote a text, and what number is a reward.

A lesson can say what its reflector read, so it inherits the strangers among the authors of those texts. No text is
trusted because of what it says, and no file because of what it says about its authors.
"""

import math
from collections.abc import Collection, Iterable
from numbers import Real
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from agentlearn.errors import ConfigError
from agentlearn.text import short_repr


class Value(BaseModel):
    """A frozen pydantic model. Its schema is built on first use (`defer_build`), so that importing stays cheap."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="constants")


def first_fault(error: ValidationError, whole: str = "it") -> str:
    """The first thing that is wrong with a value: `FIELD: why`. whole: what is named where it is no single field."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg'].removeprefix('Value error, ')}"


_TrustableKind = Literal["function", "instructions", "pages", "reasons", "tasks", "tools", "traffic"]
AuthorKind = Literal[_TrustableKind, "library", "person", "model", "sandbox"]
"""person: who runs agentlearn, with their files and code. model: the models of the run. sandbox: our own code tool, and
the sites that agentlearn generates. All others are strangers. pages: what a browser read. tools: results of every
other tool. reasons: reasons that a reward gives, which may quote anybody. tasks: a dataset that was downloaded.
traffic: recorded dialogues, what users said of them, and messages that the task does not hold. instructions: prompts
that code makes. function: what a function says that stands for the agent. library: lessons in a file."""
_OWN = frozenset({"person", "model", "sandbox"})
_WORDS = {
    "function": "words of a function",
    "instructions": "instructions that code makes",
    "pages": "pages",
    "reasons": "reasons of a reward",
    "tasks": "tasks of a dataset",
    "tools": "results of a tool",
    "traffic": "recorded traffic",
    "library": "lessons in a file",
}


class Author(Value):
    """Who wrote a text."""

    kind: AuthorKind
    name: str = ""
    """Which one: the host of a page, a tool, a dataset, a domain, recorded traffic, a file. Empty: not known."""

    @property
    def stranger(self) -> bool:
        """Whether it is somebody whom the person did not name."""
        return self.kind not in _OWN

    @property
    def words(self) -> str:
        """Kind and name in words, such as `pages (example.org)`."""
        words = _WORDS.get(self.kind, self.kind)
        return f"{words} ({self.name})" if self.name else words

    def is_trusted(self, trust: Collection[str]) -> bool:
        """Whether it is no stranger, or `trust` names it by kind, such as tools, or by kind and name: tools:search."""
        return not self.stranger or self.kind in trust or f"{self.kind}:{self.name}" in trust


def _trust(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    kind, colon, name = given.partition(":")
    if kind not in get_args(_TrustableKind) or (colon and not name):
        raise ValueError(
            f"{given!r} names no author; give one of {', '.join(get_args(_TrustableKind))}, or one of them with a name,"
            " such as tools:search"
        )
    return given


TrustedAuthor = Annotated[str, BeforeValidator(_trust)]
"""Authors that somebody means to trust: a kind, such as `reasons`, or one of a kind, such as `tools:search`."""


def strangers(authors: Iterable[Author]) -> tuple[Author, ...]:
    """Return the strangers among authors, each once, sorted."""
    return tuple(sorted(frozenset(one for one in authors if one.stranger), key=lambda one: (one.kind, one.name)))


Scale: TypeAlias = tuple[float, float]
"""The lowest and the highest reward that is given."""
UNIT: Scale = (0.0, 1.0)
_USUAL: tuple[Scale, ...] = ((1, 5), (0, 10), (0, 100))
_HUGE = 1e300


def reward_of(given: object, scale: Scale = UNIT, *, of_feedback: bool = False) -> float:
    """Return a reward as a number from 0 to 1. True and False mean right and wrong on every scale.

    given: a bool, a number, or a scalar of numpy or torch. scale: what its lowest and its highest value are.
    of_feedback: whether another scale can be stated where it comes in. Raises ConfigError for anything else, with the
    arithmetic that corrects it.
    """
    (low, high), plain = scale, given
    if getattr(given, "ndim", None) == 0 and hasattr(given, "item"):
        plain: Any = given.item()  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(plain, bool):
        return float(plain)
    words = f"reward is {short_repr(given)}; give True, False or a number from {low:g} to {high:g}"
    number: Any = plain if isinstance(plain, Real) else math.nan
    if abs(number) < _HUGE:
        value = float(number)
        if low <= value <= high:
            return (value - low) / (high - low)
        limit = f"above {high:g}" if value > high else f"below {low:g}"
        words = f"reward {value:.6g} is {limit}; {_correction(value, scale, of_feedback)}"
    raise ConfigError(words, code="bad_reward")


OptionalReward: TypeAlias = Annotated[
    float | None, BeforeValidator(lambda given: None if given is None else reward_of(given))
]
"""A field for a reward from 0 to 1 that was given elsewhere; None for none."""


def _correction(value: float, scale: Scale, of_feedback: bool) -> str:
    """What to do about a reward that is outside its scale."""
    if scale != UNIT:
        return f"give a number from {scale[0]:g} to {scale[1]:g}, the scale that was stated"
    fits = next((one for one in _USUAL if 0 <= value <= one[1] and value.is_integer()), None)
    low, high = (-1, 1) if -1 <= value < 0 else fits or ("LOWEST", "HIGHEST")
    step = "add 1 and divide by 2" if high == 1 else f"divide by {high}" if fits else "map your scale to 0 to 1"
    stated = f", or say Recorder(scale=({low}, {high})) (for a gateway: --scale {low},{high})"
    return step + (stated if of_feedback else "")


def number_range(given: object, what: str, example: str) -> tuple[float, float]:
    """Return the lowest and the highest number in `LOW,HIGH`, `LOW..HIGH` or a pair.

    what, example: for the error, such as `the score range` and `--score-range -1,1`. Raises ConfigError.
    """
    parts: Any = given.replace("..", ",").split(",") if isinstance(given, str) else given
    try:
        low, high = map(float, parts)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise ConfigError(
            f"{what} {given!r} is not a lowest and a highest score; give two numbers, the smaller one first, such as"
            f" {example}",
            code=f"bad_{what.removeprefix('the ').replace(' ', '_')}",
        )
    return low, high

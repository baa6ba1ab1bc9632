"""Who wrote a text that a model reads, and which of these authors are strangers.

A lesson can say what its reflector read, so it inherits the strangers among the authors of those texts. No text is
trusted because of what it says, and no file because of what it says about its authors.
"""

from collections.abc import Collection, Iterable
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator

from agentlearn.types.value import Value

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
        """Whether the author is no stranger, or one of those that somebody means to trust."""
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

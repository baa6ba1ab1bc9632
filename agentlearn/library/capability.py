"""`Experiences`: shows lessons to an agent, the same way in learning, evaluation and applications."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_ai.capabilities import AbstractCapability

from agentlearn.library import LibraryStore
from agentlearn.library.render import Rendered, render
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId

DEFAULT_STORE = Path(".agentlearn")


@dataclass(init=False)
class Experiences(AbstractCapability[Any]):
    """Adds the lessons of a library to an agent's instructions, fenced as advice.

    library: a `Library`, or a reference to one: `NAME`, `NAME@VERSION`, a JSON file, or `none`.
    store: the directory that `agentlearn learn --store` wrote to; used for references by name.
    masked: lessons withheld from this agent.

    The library is read once, here, so the agent does not change while an application runs. Raises LibraryError when
    there is no such library.
    """

    def __init__(
        self,
        library: Library | str,
        *,
        store: Path | str = DEFAULT_STORE,
        masked: tuple[ExperienceId, ...] = (),
        id: str | None = None,  # noqa: A002  # the base class's name for it
    ) -> None:
        self.id = id
        self.library = LibraryStore(Path(store) / "libraries").load(library) if isinstance(library, str) else library
        self.rendered: Rendered = render(self.library, masked=masked)

    def get_instructions(self) -> str | None:
        """The block of advice; None for an empty library."""
        return self.rendered.text or None

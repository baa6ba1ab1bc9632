"""`Experiences`: the one way lessons reach an agent, in learning, in evaluation and in an application alike."""

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
    """Shows the lessons of a library to an agent, fenced as advice, as part of its instructions.

    library: a `Library`, or a reference to one: `NAME`, `NAME@VERSION`, a JSON file, or `none`.
    store: the directory that `agentlearn learn --store` wrote to; used for references by name.
    masked: lessons withheld from this agent.

    Raises LibraryError when the reference names no library. The library is read once, when the capability is made:
    an agent never changes under a running application.
    """

    def __init__(
        self,
        library: Library | str,
        *,
        store: Path | str = DEFAULT_STORE,
        masked: tuple[ExperienceId, ...] = (),
        id: str | None = None,  # noqa: A002  # the base class names it so
    ) -> None:
        self.id = id
        self.library = LibraryStore(Path(store) / "libraries").load(library) if isinstance(library, str) else library
        self.rendered: Rendered = render(self.library, masked=masked)

    def get_instructions(self) -> str | None:
        """The fenced block; nothing for an empty library."""
        return self.rendered.text or None

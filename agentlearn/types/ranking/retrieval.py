"""The settings of retrieval."""

from pydantic import ConfigDict, Field

from agentlearn.types.value import Value

DEFAULT_SHOWN_TOKENS = 4_000
DEFAULT_SHOWN_LESSONS = 8


class Retrieval(Value):
    """Which lessons of a library an agent is shown, where they may be too many to show all."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    max_shown_tokens: int = Field(default=DEFAULT_SHOWN_TOKENS, ge=1)
    """All lessons are shown while they have at most this many tokens; above that, those that fit the task."""
    shown_lessons: int = Field(default=DEFAULT_SHOWN_LESSONS, ge=0, le=1_000)
    """The largest number of lessons to show of a library above that size; 0: always show all."""
    embedder: str | None = None
    """The embedding model, such as `openai:text-embedding-3-small`; None: lessons are chosen by their words alone."""
    tags: tuple[str, ...] = ()
    """Show only lessons that have one of these tags; none given: all lessons."""
    domains: tuple[str, ...] = ()
    """Show only lessons that have the name of one of these domains among their tags; none given: all lessons."""

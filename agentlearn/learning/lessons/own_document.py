"""The document that a run improves: a Markdown file, or the instructions or the tool descriptions of an agent.

The document as a person gave it is the first version of its library, so that `library diff` and `library rollback`
reach it. A later run goes on from the newest version while the person's document is one that the library has had.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import LearnSettings
from agentlearn.domain.base import Domain, RolloutContext
from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.library.formats.document import document_of
from agentlearn.models.endpoint import is_simulated
from agentlearn.text.files import readable
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.rendering import document_text
from agentlearn.types.task import Task
from agentlearn.types.value import first_fault

_MOST_BYTES = 1_000_000


def refuse_document(settings: LearnSettings, *, other_start: bool = False, own_reflector: bool = False) -> None:
    """Raise ConfigError for a document that a run cannot improve, before anything is spent.

    other_start: whether a program gave something to start from. own_reflector: whether it gave a model that reflects.
    """
    if settings.on is None:
        return
    if settings.library is not None or other_start:
        raise ConfigError("--on names the document to start from; leave --from out")
    if is_simulated(settings.reflector_name) and not own_reflector:
        raise ConfigError(
            f"{settings.reflector_name} is simulated and writes lessons alone; name a model that can change a"
            " document with --reflector"
        )
    if settings.on_file:
        _file(Path(settings.on))


async def start_document(settings: LearnSettings, domain: Domain, task: Task, libraries: LibraryStore) -> Library:
    """Return the version of the document to start from; publish it where it is not in its library yet.

    task: one of the run, with which the agent's own instructions and tools are read. Raises ConfigError for a document
    that cannot be read, LibraryError for a library that is no such document.
    """
    name, history = settings.document, libraries.history(settings.library_name)
    text = _file(Path(settings.on or "")) if settings.on_file else await _of_agent(name, domain, task)
    head = history.load() if history.exists else EMPTY_LIBRARY
    if history.exists and head.document != name:
        raise ConfigError(f"the library {settings.library_name!r} is not the document {name!r}; give another --name")
    known = (one for _, one in history.load_each(history.versions()) if isinstance(one, Library))
    if any(document_text(section.lesson for section in one.experiences) == _ended(text) for one in known):
        return head
    try:
        given = document_of(text, name, head)
    except ValidationError as error:
        raise ConfigError(f"{settings.on!r} cannot be improved: {first_fault(error)}") from error
    if not len(given):
        raise ConfigError(f"{settings.on!r} is empty; write what the agent is to read first")
    history.publish(given, kind="import")
    return given


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _file(path: Path) -> str:
    try:
        content = readable(path.expanduser()).read_bytes()
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"{str(path)!r} has {len(content):,} bytes; at most {_MOST_BYTES:,} are read")
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {str(path)!r}; check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{str(path)!r} cannot be read: {why}") from error


class _Seen(Exception):
    """The first request of an agent."""


async def _of_agent(what: str, domain: Domain, task: Task) -> str:
    """Return the instructions of the domain's agent, or the descriptions of its tools as sections. Asks no model."""
    if domain.runs_itself:
        raise ConfigError(f"{domain.name!r} is a function and has no {what} of its own; give --on FILE.md")

    agent, seen = domain.agent(), list[AgentInfo]()

    def note(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        raise _Seen

    async with domain.open(RolloutContext(task=task, seed=0)) as deps:
        with suppress(_Seen):
            await agent.run(domain.question(task), model=FunctionModel(note), deps=deps)
    info: Any = seen[0]
    if what == "tools":
        tools = [f"## {one.name}\n\n{(one.description or one.name).strip()}\n" for one in info.function_tools]
        if not tools:
            raise ConfigError(f"the agent {domain.name!r} has no tools; give --on instructions or --on FILE.md")
        return "\n".join(tools)
    parts = info.model_request_parameters.instruction_parts or ()
    if made := [one for one in parts if one.dynamic]:
        raise ConfigError(
            f"{len(made)} of the instructions of {domain.name!r} are made by functions, which a document would replace;"
            " give --on FILE.md, which is added to them"
        )
    text = "\n\n".join(one.content.strip() for one in parts)
    if not text:
        raise ConfigError(f"the agent {domain.name!r} has no instructions; give --on FILE.md")
    return text

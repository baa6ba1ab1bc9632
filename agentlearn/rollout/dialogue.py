"""The dialogue of a rollout: what the user of a multi-turn task says next, and who wrote the texts of a request.

A model repeats what it reads, so a lesson can say whatever stood in a request. A text is ours only if it is known: the
task, the lessons, prompts that stand literally in the agent, the model's own words, fixed words of pydantic-ai. What
the domain says of its tools holds too. Everything else is a stranger's, also in kinds of parts that are not known here.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import Agent, FunctionToolset, UsageLimits
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolReturnPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_core import to_json

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.domain.base import Domain, TaskUser
from agentlearn.errors import ToolError
from agentlearn.library.shown import text_of
from agentlearn.prompts import load_prompt
from agentlearn.text import storable
from agentlearn.types.task import Task, User
from agentlearn.types.trajectory import PLACE
from agentlearn.types.value import Author, AuthorKind

END = "<end>"
"""What the model that plays a user writes when the user has no more to say."""
_BEGIN = "(The conversation begins. You speak first.)"
_NOTHING = "(The assistant wrote nothing.)"


@dataclass(slots=True)
class PlayedUser:
    """A user whose messages a model writes."""

    model: Callable[[], Model]
    """Return that model. Called once, when it is first needed."""
    instructions: str
    """What the model is told about the user."""
    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])
    """What was said before, as the model sees it: the agent's messages are requests."""
    _agent: Agent[None, str] | None = None

    async def says(self, said: str) -> str:
        """Return the user's next message, without the model's thoughts. said: what the user is told.

        Raises EndpointError, and ToolError when the model gives no message: neither is a fault of the agent.
        """
        if self._agent is None:
            self._agent = Agent(self.model(), instructions=self.instructions, name="user")
        try:
            asked = await self._agent.run(
                said.strip() or _NOTHING, message_history=self.messages, usage_limits=UsageLimits(request_limit=2)
            )
        except (UnexpectedModelBehavior, UsageLimitExceeded) as error:
            raise ToolError(f"the model that plays the user gave no message: {error}", code="no_user") from error
        self.messages = asked.all_messages()
        text = storable(split_thoughts(asked.output).said.strip())
        if not text:
            raise ToolError("the model that plays the user gave an empty message", code="no_user")
        return text


@dataclass(slots=True)
class Dialogue:
    """One conversation of an agent with the user of a task. The user has said the task's problem already."""

    user: User
    problem: str
    model: Callable[[], Model]
    """Return the model that plays a user with a goal. Called once, when it is first needed."""

    replies: int = 0
    """How often the user has replied."""
    over: bool = False
    """Whether the user has no more to say."""
    farewell: str = ""
    _played: PlayedUser | None = None

    async def begin(self, question: str) -> str:
        """Return the question itself."""
        return question

    async def reply(self, said: str) -> str | None:
        """Return what the user says to the agent's message; None when the conversation is over.

        said: the message, with or without the model's thoughts. Raises EndpointError, and ToolError when the model that
        plays the user gives no message: neither is a fault of the agent.
        """
        self.over = self.replies >= (len(self.user.script) or self.user.turns)
        if self.over:
            return None
        text = self.user.script[self.replies] if self.user.script else await self._ask(split_thoughts(said).said)
        self.replies += 1
        self.over = text is None
        return text

    async def _ask(self, said: str) -> str | None:
        if self._played is None:
            instructions = load_prompt("user", 1).fill({"goal": self.user.goal})
            begin = ModelRequest.user_text_prompt(_BEGIN, instructions=instructions)
            history: list[ModelMessage] = [begin, ModelResponse(parts=[TextPart(self.problem)])]
            self._played = PlayedUser(self.model, instructions, history)
        text = await self._played.says(said)
        return None if END in text else text


_PERSON, _MODEL, _OUTPUT = Author(kind="person"), Author(kind="model"), Author(kind="tools", name="output")
_FIXED_RESULTS = """Final result processed.
Output tool not used - a final result was already processed.
Output tool processed, but its value will not be the final result of the agent run.
Output tool not used - output function execution failed.
Output tool not used - output failed validation.
Tool not executed - a final result was already processed.""".splitlines()
"""What pydantic-ai itself writes as the result of an output tool, or of a tool that did not run."""
_ASKED_AGAIN = """please return text an image or include your response in a tool call field required input should be
valid string integer number boolean object list dictionary tuple date datetime unable to parse as interpret got with
fractional part extra inputs are not permitted greater less than equal have at least most character characters item
items after validation none match pattern finite instance of"""
"""The words in which pydantic says that a value does not fit, and pydantic-ai that a reply held nothing usable."""


class RequestTexts:
    """The texts that the model of one rollout is sent, as far as they are known, and the authors who were found.

    `agent` is the agent that was given, None where the domain runs itself. `said` has the messages of a dialogue, or
    those that a domain that runs itself gives. Where it gives none, `messages` has what was said to the model and by
    it, each message once, one conversation after the other, and `talk` what was said to the task's user and by them.
    `opening` is set where that user does not begin with the domain's question.
    """

    def __init__(self, task: Task, domain: Domain, agent: Any, *ours: str) -> None:
        """ours: the lessons, and other texts of ours."""
        while isinstance(agent, WrapperAgent):
            agent = agent.wrapped
        self.agent, self.opening = agent, False
        self.said, self.messages, self.talk = (list[ModelMessage]() for _ in range(3))
        self._task, self._domain, self._offered, self.found = task, domain, ModelRequestParameters(), set[Author]()
        self._known, self._read, self._seen = dict[str, Author](), dict[str, Author](), dict[int, tuple[Any, Any]]()
        for text in (task.problem, task.start, *ours):
            self.know(text, task.author)
        own = [one.tools for one in (agent.toolsets if agent else ()) if isinstance(one, FunctionToolset)]
        self._tools = [(t.name, t.description, t.function_schema.json_schema) for one in own for t in one.values()]

    def know(self, text: str | None, author: Author) -> None:
        """Note who wrote a text."""
        if text and text.strip():
            self.found.add(self._known.setdefault(text.strip(), author))

    def literal(self, agent: object, prompts: Iterable[str]) -> None:
        """Note prompts that stand literally in an agent. One that is made within a rollout may hold anybody's text."""
        for text in prompts if agent is self.agent else ():
            self.know(text, _PERSON)

    def written_by(self, text: str | None, kind: AuthorKind) -> Author:
        """Return who wrote a text, and note it. kind: of the author where the text is not known.

        A text made of known ones is known, and so is a piece of one.
        """
        text = text or ""
        if text not in self._read:
            rest = plain = text.strip()
            for one in sorted(self._known, key=len, reverse=True):
                rest = rest.replace(one, " ") if len(one) > 3 else rest
            ours = not any(map(str.isalnum, rest)) or any(plain in one for one in self._known)
            self._read[text] = self._known.get(plain, _PERSON) if ours else self._other(kind)
            self.found.add(self._read[text])
        return self._read[text]

    def _other(self, kind: AuthorKind) -> Author:
        """Who wrote a text that is not known. kind: in an agent's requests."""
        if self._task.author.name == self._domain.name:  # another project's task, loop and tools
            return self._task.author
        return Author(kind=kind if self.agent is not None else "function", name=self._domain.name)

    def result_by(self, part: ToolReturnPart) -> Author:
        """Return who wrote the result of a tool."""
        if isinstance(part.content, str) and part.content in _FIXED_RESULTS:
            return _PERSON
        if part.tool_name in {one.name for one in self._offered.output_tools}:
            return self._retry_by(part.content)
        known: Mapping[str, object] = part.metadata if isinstance(part.metadata, dict) else {}
        return self._domain.author_of(part.tool_name, str(known.get(PLACE, "")))

    def _retry_by(self, said: Any) -> Author:
        """Who wrote what asks for another output: fixed words and a schema's errors are ours, a validator's are not.

        An error of a schema is ours if pydantic's sentence adds only words of the schema and the input is the model's.
        """
        own = "".join("".join(text for text, by in self._known.items() if by == _MODEL).split())
        of_schema = isinstance(said, list) and all(isinstance(one, Mapping) for one in said)
        schema = f"{[one.parameters_json_schema for one in self._offered.output_tools]} {self._offered.output_object}"
        fixed = _words(f"{_ASKED_AGAIN} {schema if of_schema else ''}")
        for error in said if of_schema else [{"msg": said}]:
            for value in (value for name, value in error.items() if name != "type"):
                packed = "".join(to_json(value, fallback=str).decode().split()).strip('"')
                if packed not in own and not _words(str(value)) <= fixed:
                    return _OUTPUT
        return _PERSON

    def answered(self, messages: Sequence[ModelMessage], offered: ModelRequestParameters, reply: ModelResponse) -> None:
        """Note a request and the model's reply to it."""
        self._offered = offered
        for one in offered.instruction_parts or ():
            self.written_by(one.content, "instructions")
        for one in offered.function_tools:
            if (one.name, one.description, one.parameters_json_schema) not in self._tools:
                self.found.add(self._domain.author_of(one.name, "") if self.agent else self._other("tools"))
        self.found.update(Author(kind="tools", name=one.kind) for one in offered.native_tools)
        self.read(messages)
        for part in reply.parts:
            self.know(_own_words(part), _MODEL)
        self.read([reply])
        if self.agent is None:
            last = max((at for at, one in enumerate(messages) if isinstance(one, ModelResponse)), default=-1)
            new = messages[last + 1 :] if self.messages else messages
            self.messages += [*(one for one in new if isinstance(one, ModelRequest)), reply]

    def read(self, messages: Iterable[ModelMessage], *, made: bool = False) -> None:
        """Note the strangers whose text stands in messages. made: of messages that were read, as frames are."""
        for message in messages:
            self.written_by(getattr(message, "instructions", None), "instructions")
            for part in message.parts:
                content: Any = getattr(part, "content", None) or getattr(part, "args", None)
                if self._seen.get(id(part), (None, self))[1] is not content:  # most requests repeat the one before
                    self._seen[id(part)] = part, content
                    self.found.update(() if made else self._authors(part, message))

    def _authors(self, part: Any, message: ModelMessage) -> Iterator[Author]:
        """Who wrote a part of a message."""
        match part.part_kind:
            case "text" | "thinking" | "tool-call" | "builtin-tool-call":
                yield self.written_by(_own_words(part), "traffic")
                if getattr(part, "citations", None):
                    yield Author(kind="tools", name="citations")
            case "tool-return":
                yield self.result_by(part)
            case "builtin-tool-return":
                yield Author(kind="tools", name=part.tool_name)
            case "retry-prompt" | "retry-feedback":
                yield self._retry_by(part.content)
            case "system-prompt":
                yield self.written_by(part.content, "instructions")
            case "user-prompt":
                returned = any(isinstance(one, ToolReturnPart) for one in message.parts)  # then pieces are the tools'
                pieces: Any = [part.content] if isinstance(part.content, str) else () if returned else part.content
                for one in filter(None, pieces):
                    if getattr(one, "kind", "") != "cache-point":
                        yield self.written_by(text, "traffic") if (text := text_of(one)) else self._other("traffic")
            case "tool-availability-delta" | "capability-load-delta" | "model-settings-delta" | "instruction-baseline":
                pass  # the model is not sent them, or only names of tools
            case kind:
                yield self._other("instructions" if kind.startswith("instruction") else "traffic")

    async def reply(self, user: TaskUser, said: str) -> str | None:
        """Return what the task's user says to a message; None: nothing more. Our users are the task's author."""
        text = await user.reply(said)
        self.know(text if isinstance(user, Dialogue) else None, self._task.author)
        self.talk += [ModelResponse(parts=[TextPart(said)]), *([ModelRequest.user_text_prompt(text)] if text else [])]
        return text


class NotedModel(WrapperModel):
    """A model whose requests and replies are noted."""

    def __init__(self, wrapped: Any, texts: RequestTexts) -> None:
        super().__init__(wrapped)
        self.texts = texts

    def prepare_messages(self, messages: Any, model_request_parameters: Any = None) -> list[ModelMessage]:
        """Return the messages as the model is sent them."""
        self.texts.read(messages)
        prepared = self.wrapped.prepare_messages(messages, model_request_parameters)
        self.texts.read(prepared, made=True)
        return prepared

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> ModelResponse:
        """Return the model's reply."""
        reply = await self.wrapped.request(messages, model_settings, model_request_parameters)
        self.texts.answered(messages, model_request_parameters, reply)
        return reply


def _own_words(part: Any) -> str | None:
    """What a model itself wrote in a part of its reply; None for a part that others may have written."""
    if part.part_kind in {"text", "thinking"}:
        return part.content
    return part.args_as_json_str() if part.part_kind in {"tool-call", "builtin-tool-call"} else None


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W\d_]+", text.lower()))

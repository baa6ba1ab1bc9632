"""The user of a multi-turn task: what they say next, from a script or by a model with a hidden goal."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models import Model

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.errors import ToolError
from agentlearn.prompts import load_prompt
from agentlearn.text import storable
from agentlearn.types.task import User

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

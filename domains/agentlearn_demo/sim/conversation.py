"""Convert a chat request into the input of the simulated solver, or into a request to the simulated reflector."""

import json

from agentlearn.serving.chat_request import ChatRequest, Message
from agentlearn_demo.sim.draws import fingerprint
from agentlearn_demo.sim.lessons import ShownLesson, experiences_in, without_experiences
from agentlearn_demo.sim.novice import SolverInput
from agentlearn_demo.sim.reflector import ReflectorRequest
from agentlearn_demo.sim.repairing import refusals_in
from agentlearn_demo.sim.skills import Conversation, ToolExchange
from agentlearn_demo.sim.stage_text import stage_of


def solver_input(request: ChatRequest) -> SolverInput:
    """The solver's input. Lessons are read from system and user messages, never from tool results."""
    shown = _experiences(request)
    return SolverInput(
        conversations=_conversations(request),
        experiences=shown,
        seed=request_seed(request),
        temperature=request.temperature,
    )


def reflector_request(request: ChatRequest, *, malformed: float | None) -> ReflectorRequest | None:
    """The reflector's input; None if the conversation is not about one of its stages."""
    users = [message for message in request.messages if message.role == "user"]
    prompt = next((user.text for user in users if stage_of(user.text) is not None), "")
    stage = stage_of(prompt)
    if stage is None:
        return None
    said = [message for message in request.messages if message.role == "assistant"]
    refusal = users[-1].text if said and refusals_in(users[-1].text) else ""
    return ReflectorRequest(
        stage=stage,
        prompt=prompt,
        seed=request_seed(request),
        earlier=len(said),
        refusal=refusal,
        previous=_as_sent(said[-1]) if refusal else "",
        malformed=malformed,
    )


def request_seed(request: ChatRequest) -> int | str:
    """The request's seed, or a hash of its messages without lessons, so that lessons do not change random draws."""
    if request.seed is not None:
        return request.seed
    return fingerprint(*((one.role, without_experiences(one.text), _as_sent(one)) for one in request.messages))


def _experiences(request: ChatRequest) -> tuple[ShownLesson, ...]:
    spoken = (message.text for message in request.messages if message.role in {"system", "user"})
    return tuple(shown for text in spoken for shown in experiences_in(text))


def _conversations(request: ChatRequest) -> tuple[Conversation, ...]:
    """One interpretation per user message, the last first: a later message may be a new problem or only a reminder."""
    instructions = "\n\n".join(
        without_experiences(message.text) for message in request.messages if message.role == "system"
    )
    tools = tuple(tool.name for tool in request.callable_tools)
    return tuple(
        Conversation(instructions, without_experiences(message.text), tools, _turns(request.messages[at:]))
        for at, message in reversed(list(enumerate(request.messages)))
        if message.role == "user"
    )


def _turns(messages: tuple[Message, ...]) -> tuple[ToolExchange, ...]:
    """Tool calls with their results, without calls whose arguments are not a JSON object."""
    results = {message.answers: message.text for message in messages if message.role == "tool"}
    turns: list[ToolExchange] = []
    for call in (call for message in messages for call in message.calls if call.id in results):
        try:
            arguments: object = json.loads(call.arguments or "{}")
        except ValueError:
            continue
        if isinstance(arguments, dict):
            turns.append(ToolExchange(call.name, arguments, results[call.id]))
    return tuple(turns)


def _as_sent(message: Message) -> str:
    return message.calls[0].arguments if message.calls else message.text

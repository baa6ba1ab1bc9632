"""A chat request as the simulated models understand it: a moment to act in, or a stage to answer."""

import json

from agentlearn.serving.chat_request import ChatRequest, Message
from agentlearn.sim.draws import fingerprint
from agentlearn.sim.lessons import ShownLesson, experiences_in, without_experiences
from agentlearn.sim.novice import Moment
from agentlearn.sim.reflector import Reflection
from agentlearn.sim.repairing import refusals_in
from agentlearn.sim.skills import Conversation, ToolExchange
from agentlearn.sim.stage_text import stage_of


def moment_of(request: ChatRequest) -> Moment:
    """The moment as the solver sees it; lessons come from what the system and the user say, never from tools."""
    shown = _experiences(request)
    return Moment(
        conversations=_conversations(request),
        experiences=shown,
        seed=seed_of(request),
        temperature=request.temperature,
    )


def reflection_of(request: ChatRequest, *, malformed: float | None) -> Reflection | None:
    """The stage that the conversation asks for; None when it asks for none."""
    users = [message for message in request.messages if message.role == "user"]
    prompt = next((user.text for user in users if stage_of(user.text) is not None), "")
    stage = stage_of(prompt)
    if stage is None:
        return None
    said = [message for message in request.messages if message.role == "assistant"]
    refusal = users[-1].text if said and refusals_in(users[-1].text) else ""
    return Reflection(
        stage=stage,
        prompt=prompt,
        seed=seed_of(request),
        earlier=len(said),
        refusal=refusal,
        previous=_as_sent(said[-1]) if refusal else "",
        malformed=malformed,
    )


def seed_of(request: ChatRequest) -> int | str:
    """The request's seed; without one, what was said with the lessons left aside, so that they move no draw."""
    if request.seed is not None:
        return request.seed
    return fingerprint(*((one.role, without_experiences(one.text), _as_sent(one)) for one in request.messages))


def _experiences(request: ChatRequest) -> tuple[ShownLesson, ...]:
    spoken = (message.text for message in request.messages if message.role in {"system", "user"})
    return tuple(shown for text in spoken for shown in experiences_in(text))


def _conversations(request: ChatRequest) -> tuple[Conversation, ...]:
    """One reading per user message, the last first: a later one may be a new problem, or only a nudge."""
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
    """Calls with their results. A call whose arguments nobody could read was no turn."""
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

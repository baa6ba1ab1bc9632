"""A chat format and an engine without weights, for tests of the code that serves a model.

As in real tokenizers, different tokens can decode to the same text: `encode` joins pairs of characters, but a model may
write the two characters separately.
"""

import asyncio
import json
from collections.abc import Callable, Sequence

from agentlearn.serving.chat_request import Message, ParsedAnswer, Tool
from agentlearn.serving.chat_service import Sampled, Sampling
from agentlearn.serving.tool_calls import parse_calls

END, BEGIN = 0, 1
SPECIAL = {END: "<|im_end|>", BEGIN: "<|im_start|>"}
CHARACTERS = 2
PAIRS = ("th", "he", "in", "an", "00", "ab", "  ")
FIRST_CHARACTER = CHARACTERS + len(PAIRS)


def token(character: str) -> int:
    """Return the token of one character."""
    return FIRST_CHARACTER + ord(character)


def spelled(text: str) -> tuple[int, ...]:
    """Return one token per character, unlike `encode`, which joins pairs."""
    return tuple(token(character) for character in text)


class ToyFormat:
    """ChatML with tokens for characters and a few pairs."""

    stop_ids = frozenset({END})

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        offered = "".join(f"<tool>{tool.size}</tool>\n" for tool in tools)
        return offered + "".join(self._message(one) for one in messages) + "<|im_start|>assistant\n"

    def _message(self, message: Message) -> str:
        calls = "".join(
            f'\n<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n</tool_call>'
            for call in message.calls
        )
        return f"<|im_start|>{message.role}\n{message.verbatim or message.text + calls}<|im_end|>\n"

    def encode(self, text: str) -> list[int]:
        self.encoded.append(text)
        ids: list[int] = []
        while text:
            special = next((one for one, words in SPECIAL.items() if text.startswith(words)), None)
            if special is not None:
                ids.append(special)
                text = text.removeprefix(SPECIAL[special])
            elif text[:2] in PAIRS:
                ids.append(CHARACTERS + PAIRS.index(text[:2]))
                text = text[2:]
            else:
                ids.append(token(text[0]))
                text = text[1:]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._piece(one) for one in ids)

    @staticmethod
    def _piece(one: int) -> str:
        if one in SPECIAL:
            return SPECIAL[one]
        return PAIRS[one - CHARACTERS] if one < FIRST_CHARACTER else chr(one - FIRST_CHARACTER)

    def parse(self, text: str, tools: Sequence[Tool], *, prompt: str) -> ParsedAnswer:
        return parse_calls(text, tools, prompt=prompt)


class ScriptedEngine:
    """An engine that returns the tokens that a function computes from prompt and sampling, plus the end token."""

    def __init__(self, say: Callable[[tuple[int, ...], Sampling], Sequence[int]], *, context: int = 4_096) -> None:
        self.say = say
        self.context = context
        self.asked: list[tuple[tuple[int, ...], Sampling]] = []
        self.cancelled = 0

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        self.asked.append((tuple(prompt), sampling))
        try:
            await asyncio.sleep(0)
            said = [*self.say(tuple(prompt), sampling), END]
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        ids = tuple(said[: sampling.max_tokens])
        logprobs = tuple(-(one % 7) / 8 for one in ids)
        return Sampled(ids, logprobs, "stop" if len(ids) == len(said) else "length", cached=min(3, len(prompt)))

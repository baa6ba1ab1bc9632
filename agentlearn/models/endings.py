"""How a reply ended, and whether it can be used. What the service did is never taken for the model's answer.

A reply is finished when the model stopped or called a tool. Any other ending is the doing of the service: it broke the
reply off, cut it at a limit that nobody asked for, or filtered it. A service can also lose what the model wrote, by
leaving it in a field for reasoning or by leaving a tool call in the text. Such replies are not used.

vLLM and our local servers add the exact tokens with `return_token_ids`. They are kept in the response's
`provider_details`, and so in the journal.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic_ai.messages import FinishReason, ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart

from agentlearn.models.reply import IDS, LOGPROBS, PROMPT_IDS, Reply, Thought, distinct_id, said_in
from agentlearn.text import storable, visible
from agentlearn.types.trajectory import SampledTokens

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestParameters


def without_tokens(response: ModelResponse) -> ModelResponse:
    """Return the answer without its tokens."""
    details = response.provider_details
    if not details or not any(key in details for key in (PROMPT_IDS, IDS, LOGPROBS)):
        return response
    kept = {key: value for key, value in details.items() if key not in {PROMPT_IDS, IDS, LOGPROBS}}
    return replace(response, provider_details=kept or None)


def tokens_of(response: ModelResponse, instructions: str = "") -> SampledTokens | None:
    """Return the tokens of an answer; None when the service did not send all of them.

    instructions: those of the request, if they differ from those of the request before.
    """
    details = response.provider_details or {}
    prompt, ids, logprobs = (cast("list[Any] | None", details.get(key)) for key in (PROMPT_IDS, IDS, LOGPROBS))
    if prompt is None or ids is None or logprobs is None or len(ids) != len(logprobs):
        return None
    return SampledTokens(
        prompt=tuple(prompt), ids=tuple(ids), logprobs=tuple(logprobs), instructions=storable(instructions)
    )


FaultCode = Literal["broken_off", "cut_off", "filtered", "only_reasoning", "empty", "call_in_text"]
"""Why a reply is not used.

broken_off: it ended for a reason that is not the model's. cut_off: it ended at a limit that the request did not set,
such as a full context window. filtered: the service withheld it. only_reasoning: its words are in a field for
reasoning, and there is no answer. empty: the service counted tokens and sent no words. call_in_text: a tool call was
left in the text.
"""

FAULT_REMEDIES: dict[FaultCode, str] = {
    "broken_off": "ask the service why, or use another",
    "cut_off": "serve the model with a larger context window (Ollama: num_ctx, vLLM: --max-model-len, llama.cpp: -c),"
    " or set the limit that you want with --max-output-tokens",
    "filtered": "reword the problems, or use a service without that filter",
    "only_reasoning": "turn reasoning off, or serve the model with the reasoning parser that fits it",
    "empty": "ask the service why, or use another",
    "call_in_text": "serve the model with the tool-call parser that fits it (vLLM: --enable-auto-tool-choice"
    " --tool-call-parser NAME)",
}
"""What can be done about each fault."""

_NEAR_LIMIT = 0.95
"""A reply that was cut off after this part of the limit of its request was cut off by that limit."""
_MOST_SHOWN = 80
"""Largest number of characters of a service's words in a message."""
_AT_ONCE = 2
"""Largest number of tokens of a model that ended at once without a word."""

# Names of endings, without case, as services and their clients report them. The names of no other service are guessed:
# an ending that is not listed here is one that the service broke off.
# fmt: off
_ENDINGS: dict[FinishReason, frozenset[str]] = {
    "stop": frozenset((
        "stop", "stop_sequence", "stop_token", "end", "end_turn", "end_of_turn", "eos", "eos_token", "complete",
        "completed", "done", "finish", "finished", "pause_turn", "null", "none", "",
    )),
    "tool_call": frozenset(("tool_call", "tool_calls", "tool_use", "function_call", "function_calls")),
    "length": frozenset((
        "length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_new_tokens", "max_length",
        "model_length", "token_limit", "max_context", "model_context_window_exceeded", "context_length_exceeded",
        "context_window_exceeded",
    )),
    "content_filter": frozenset((
        "content_filter", "content_filtered", "safety", "image_safety", "sensitive", "blocklist", "blocked",
        "prohibited_content", "image_prohibited_content", "spii", "recitation", "guardrail_intervened", "refusal",
        "moderation", "language",
    )),
}
# fmt: on
_PREFIX = re.compile(r"^(?:finish_reason_|finishreason\.|reason_)")
_END_TOKEN = re.compile(r"<[|｜].+[|｜]>|</\w+>|<(?:eo[a-z]|end_[a-z_]+|[a-z]+\|)>")
"""A token of a chat template, at which the model stopped: `<|im_end|>`, `</s>`, `<eos>`, `<end_of_turn>`, `<turn|>`."""
_CALL_MARKS = re.compile(
    r"<tool_calls?>|<\|tool_calls?(?:_begin|_section_begin)?\|?>|<｜tool▁calls?▁begin｜>|\[TOOL_CALLS\]|<\|python_tag\|>"
    r"|<function[=_]|<[\w.-]+:tool_call>|<\|channel\|>commentary|to=functions\.",
)
"""Marks with which chat templates begin a tool call."""
_JSON_CALL = re.compile(r'^\s*(?:```(?:json)?\s*)?[\[{]+\s*"(?:name|function|type|tool_name)"\s*:')


def fault_remedy(code: str) -> str | None:
    """Return what can be done about the error code of a call whose replies were not used; None for any other code."""
    return next((remedy for fault, remedy in FAULT_REMEDIES.items() if code == f"endpoint_{fault}"), None)


@dataclass(frozen=True, slots=True)
class ReplyFault:
    """What a service did to a reply, so that it is not used."""

    code: FaultCode
    words: str
    """In words, such as `broke its reply off ('network_error')`. The service is their subject."""

    @property
    def asked_again(self) -> bool:
        """Whether the same request is sent again. After a reply that was too long it is not: long answers would be
        replaced by short ones."""
        return self.code != "cut_off"


class UnusedReply(Exception):
    """Raised for a reply that was paid for and is not used."""

    def __init__(self, fault: ReplyFault) -> None:
        super().__init__(fault.words)
        self.fault = fault
        self.code = fault.code


def ending_of(reported: str) -> FinishReason:
    """Return what an ending means, from its name as a service reports it; `error` for every unknown name."""
    raw = _PREFIX.sub("", re.sub(r"[\s-]+", "_", reported.strip().casefold()))
    for ending, names in _ENDINGS.items():
        if raw in names:
            return ending
    return "stop" if _END_TOKEN.fullmatch(raw) else "error"


def _reported_ending(response: ModelResponse) -> str:
    """Return the ending as the service named it; else as the client understood it; empty when it named none."""
    raw = (response.provider_details or {}).get("finish_reason")
    if isinstance(raw, str):
        return raw
    return "refusal" if (response.provider_details or {}).get("refusal") else response.finish_reason or ""


def is_at_limit(response: ModelResponse, limit: int) -> bool:
    """Whether a reply ended at the limit of its request on output tokens, and not at a lower one of the service."""
    made = response.usage.output_tokens
    return _reached(made, limit) if response.finish_reason == "length" else made == limit


def _reached(made: int, limit: int) -> bool:
    return not made or made >= _NEAR_LIMIT * limit


def _ending_fault(reported: str, given: int, made: int, limit: int | None) -> ReplyFault | None:
    """Return why a reply with this ending is not the model's answer; None when it is.

    given, made: tokens of the request and of the reply. limit: of the request on output tokens; None: it set none.
    """
    match ending_of(reported):
        case "error":
            return ReplyFault("broken_off", f"broke its reply off ({_shown(reported)})")
        case "content_filter":
            return ReplyFault("filtered", f"withheld its reply ({_shown(reported)})")
        case "length" if limit is None or not _reached(made, limit):
            at = f" at {given + made:,} tokens, {given:,} of them the prompt" if given or made else ""
            ours = "" if limit is None else f", below the limit of {limit:,} output tokens that was asked for"
            why = "its context window is full, or its own limit is lower"
            return ReplyFault("cut_off", f"cut its reply off{at}{ours}: {why}")
        case _:
            return None


def fault_of(
    response: ModelResponse, parameters: "ModelRequestParameters", *, limit: int | None, whole: bool = False
) -> ReplyFault | None:
    """Return why a reply cannot be used; None when it can.

    limit: of the request on output tokens; None: it set none. whole: whether the service is one
    of ours, which hands over everything that the model writes, up to a limit that is known.
    """
    reported, usage = _reported_ending(response), response.usage
    fault = _ending_fault(reported, usage.input_tokens, usage.output_tokens, 0 if whole else limit)
    if fault is not None or whole or IDS in (response.provider_details or {}) or ending_of(reported) == "length":
        return fault
    return _lost(response, parameters)


def fault_in(reply: Reply, *, limit: int | None) -> ReplyFault | None:
    """Return why a reply to somebody else's request is not the model's answer; None when it is.

    limit: of the request on output tokens; None: it set none. A reply without a word and without a call is none.
    """
    if reply.error:
        return ReplyFault("broken_off", f"broke its reply off ({_shown(reply.error)})")
    given, _, made = reply.tokens
    fault = _ending_fault(reply.ending, given, made, limit)
    if fault is not None or reply.message.calls or said_in(reply.parts).strip():
        return fault
    if any(isinstance(one, Thought) for one in reply.parts):
        return ReplyFault("only_reasoning", "sent words only as reasoning and no answer")
    return ReplyFault("empty", "sent no words and no call")


def tidied(
    response: ModelResponse, messages: "Sequence[ModelMessage]", parameters: "ModelRequestParameters", salt: str
) -> ModelResponse:
    """Return a reply with the usual name of its ending, and with names of offered tools and distinct ids in its calls.

    A service can leave control tokens and prefixes in a name, and repeat or leave out ids. messages: the conversation
    before. salt: makes new ids differ; the same salt gives the same ids.
    """
    offered = {tool.name for tool in (*parameters.function_tools, *parameters.output_tools)}
    before = (part for one in messages if isinstance(one, ModelResponse) for part in one.parts)
    taken = {part.tool_call_id for part in before if isinstance(part, ToolCallPart)}
    parts = list(response.parts)
    for index, part in enumerate(parts):
        if isinstance(part, ToolCallPart):
            identity = distinct_id(part.tool_call_id, taken, salt, index)
            parts[index] = replace(part, tool_name=_offered_name(part.tool_name, offered), tool_call_id=identity)
    return replace(response, parts=parts, finish_reason=ending_of(_reported_ending(response)))


def _offered_name(name: str, offered: set[str]) -> str:
    """Return the offered tool that a name means when its control tokens and prefixes are taken off; else the name."""
    if name in offered or not offered:
        return name
    bare = re.sub(r"<\|.*$", "", name, flags=re.DOTALL).strip()
    bare = re.sub(r":\d+$", "", re.sub(r"^(?:to=)?(?:(?:default_api|functions?|tools?)[.:])+", "", bare))
    meant = [one for one in offered if one.casefold() == bare.casefold()]
    return meant[0] if len(meant) == 1 else name


def _lost(response: ModelResponse, parameters: "ModelRequestParameters") -> ReplyFault | None:
    """Return what the service lost of a finished reply; None when nothing is missing."""
    parts = response.parts
    text = "".join(part.content for part in parts if isinstance(part, TextPart))
    if any(not isinstance(part, TextPart | ThinkingPart) for part in parts):
        return None
    if text.strip():
        offered = [tool.name for tool in (*parameters.function_tools, *parameters.output_tools)]
        begun = _CALL_MARKS.search(text) or _JSON_CALL.match(text)
        if begun is None or not any(name in text[begun.start() :] for name in offered):
            return None
        words = f"left a tool call in the text of its reply ({_shown(text[begun.start() :])})"
        return ReplyFault("call_in_text", words)
    if any(isinstance(part, ThinkingPart) and part.content.strip() and part.id for part in parts):
        field = next(part.id for part in parts if isinstance(part, ThinkingPart) and part.id)
        return ReplyFault("only_reasoning", f"sent words only as reasoning ({field!r}) and no answer")
    if not parts and response.usage.output_tokens > _AT_ONCE:
        return ReplyFault("empty", f"counted {response.usage.output_tokens:,} tokens and sent no words")
    return None


def _shown(text: str) -> str:
    """Return a service's words in quotes, on one line and of limited length."""
    short = visible(" ".join(text[:400].split()))
    return repr(short if len(short) <= _MOST_SHOWN else short[: _MOST_SHOWN - 3] + "...")

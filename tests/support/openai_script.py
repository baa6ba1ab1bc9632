"""Replies of the stub server, and its default script, `Solver`.

A script is a function from a request's JSON to a `Reply`. `Solver` does not learn from lessons. With a seed in the
request, its answer depends only on the request, so the same request gets the same answer.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, get_args

Request = dict[str, Any]
Script = Callable[[Request], "Reply"]
Stage = Literal["solve", "summarise", "compare", "consolidate"]
Malformation = Literal["prose", "object", "strings", "unknown_ids", "cut", "one_bad"]

CODE_TOOL = "run_python"
TAGS: Mapping[str, Stage] = {"<proposals>": "consolidate", "<attempts>": "compare", "<trajectory>": "summarise"}
LESSONS = (
    "When counting arrangements, decide first whether order matters and state it before computing anything.",
    "When a search needs an upper bound, derive it from the problem instead of choosing a round number.",
    "When an exact value is asked for, compute with fractions or integers and convert at the very end.",
    "When endpoints might belong to the interval, test both of them separately before summing.",
    "When a fraction is asked for in lowest terms, reduce it before adding numerator and denominator.",
    "When several units appear, convert all of them to one unit at the start.",
    "When a program prints a result, confirm it on a small case that can be checked by hand.",
    "When roots are counted, ask whether repeated ones count once or several times.",
    "When zero is possible, treat it as a case of its own rather than trusting a general formula.",
    "When a condition says distinct, filter duplicates explicitly and count again.",
    "When modular arithmetic helps, reduce early and keep negative remainders out.",
    "When the form of the answer is prescribed, rewrite the result into that form last.",
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The response of the server: an assistant message, or any body with any status."""

    message: Mapping[str, Any] | None = None
    status: int = 200
    body: Any = None
    """Sent instead of a completion: a string as it is, anything else as JSON."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def text(content: str) -> Reply:
    """Return an assistant message with text."""
    return Reply(message={"role": "assistant", "content": content})


def tool_call(name: str, args: Mapping[str, Any] | str) -> Reply:
    """Return an assistant message that calls one tool. `args` as a string is sent unchanged, valid JSON or not."""
    arguments = args if isinstance(args, str) else json.dumps(args)
    call = {"id": f"call_{digest(name, arguments):016x}", "type": "function"}
    function = {"name": name, "arguments": arguments}
    return Reply(message={"role": "assistant", "content": None, "tool_calls": [{**call, "function": function}]})


def error(status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
    """Return an error response. The default body has the form of real services."""
    default = {"error": {"message": f"stub refuses with {status}", "type": "stub_error", "code": None}}
    return Reply(status=status, body=default if body is None else body, headers=headers or {})


def stage_of(request: Request) -> Stage:
    """Return the stage of a request, from the tags in the user messages."""
    said = user_text(request)
    for tag, stage in TAGS.items():
        if tag in said:
            return stage
    return "solve"


def user_text(request: Request) -> str:
    """Return all user messages as one text."""
    return "\n".join(_words(one) for one in request["messages"] if one["role"] == "user")


@dataclass(frozen=True, slots=True)
class Malformed:
    """How often the answer of a stage is malformed, and in which ways."""

    rate: float = 1.0
    kinds: Sequence[Malformation] = get_args(Malformation)


@dataclass(slots=True)
class Solver:
    """Solves problems by running a small program, and answers the learning stages.

    answers: the right answer by problem text; the text may be anywhere in the user messages.
    success_rate: share of attempts that print the right answer; the other attempts print another number.
    with_lessons: the same for attempts that are shown lessons; None: success_rate.
    final: formats the printed answer as the domain requires.
    """

    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    success_rate: float = 0.5
    with_lessons: float | None = None
    malformed: Mapping[Stage, Malformed] = field(default_factory=dict[Stage, Malformed])
    final: Callable[[str], str] = r"The answer is \boxed{{{0}}}.".format
    _asked: Counter[str] = field(default_factory=Counter[str], init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __call__(self, request: Request) -> Reply:
        stage = stage_of(request)
        if stage == "solve":
            return self._solve(request)
        payload = _payload(stage, request)
        fault = self.malformed.get(stage)
        if fault is None or self._share(request, "malformed") >= fault.rate:
            return submit(request, json.dumps(payload))
        kind = fault.kinds[int(self._share(request, "kind") * len(fault.kinds))]
        return _spoil(kind, request, payload)

    def _solve(self, request: Request) -> Reply:
        results = [_words(one) for one in request["messages"] if one["role"] == "tool"]
        if results:
            return text(self.final(_printed(results[-1])))
        answer = self._attempt(request)
        if CODE_TOOL in offered_tools(request):
            return tool_call(CODE_TOOL, {"code": f"print('answer=' + {answer!r} + ';')"})
        return text(self.final(answer))

    def _attempt(self, request: Request) -> str:
        said = user_text(request)
        right = next((answer for problem, answer in self.answers.items() if problem in said), None)
        shown = any("<experiences" in _words(one) for one in request["messages"])
        rate = self.success_rate if self.with_lessons is None or not shown else self.with_lessons
        if right is not None and self._share(request, "right") < rate:
            return right
        return str(1_000 + int(self._share(request, "wrong") * 9_000))

    def _share(self, request: Request, purpose: str) -> float:
        """Return a number in [0, 1) derived from the request, and without a seed also from how often it was sent."""
        seed = request.get("seed")
        if seed is None:
            key = f"{purpose} {digest(request['messages'])}"
            with self._lock:
                self._asked[key] += 1
                seed = f"time {self._asked[key]}"
        return (digest(purpose, request["messages"], seed) >> 11) / 2**53


def offered_tools(request: Request) -> tuple[str, ...]:
    """Return the names of the tools in the request."""
    return tuple(tool["function"]["name"] for tool in request.get("tools") or ())


def submit(request: Request, payload: str) -> Reply:
    """Return a structured answer: a call of the output tool if the request has one, else content."""
    output = next((name for name in offered_tools(request) if name != CODE_TOOL), None)
    return text(payload) if output is None else tool_call(output, payload)


def _payload(stage: Stage, request: Request) -> dict[str, list[Any]]:
    said = user_text(request)
    if stage == "summarise":
        return {"steps": [{"text": "Wrote a short program and ran it.", "used": []}, {"text": "Gave what it printed."}]}
    if stage == "compare":
        return {"proposals": [{"op": "add", "lesson": LESSONS[digest(said) % len(LESSONS)]}]}
    listed = re.findall(r"\b(P\d+)\b[^\n]*?(When [^\n\"<]*)", said)
    labels: dict[str, list[str]] = {}
    for label, lesson in listed:
        labels.setdefault(lesson.strip(), []).append(label)
    return {"proposals": [{"op": "add", "lesson": one, "rests_on": on} for one, on in labels.items()]}


def _spoil(kind: Malformation, request: Request, payload: dict[str, list[Any]]) -> Reply:
    [(key, items)] = payload.items()
    first, second = {"op": "add", "lesson": LESSONS[0]}, {"op": "add", "lesson": LESSONS[1]}
    match kind:
        case "prose":
            return text("I looked at all of it and think that more care would help.")
        case "object":
            return submit(request, json.dumps({key: first}))
        case "strings":
            return submit(request, json.dumps({key: [LESSONS[0], LESSONS[1]]}))
        case "unknown_ids":
            lost = {"op": "modify", "target": "G9999", "lesson": LESSONS[0], "text": "Used it.", "used": ["G9999"]}
            return submit(request, json.dumps({key: [lost]}))
        case "cut":
            whole = json.dumps({key: [*items, first]})
            return submit(request, whole[: len(whole) * 2 // 3])
        case "one_bad":
            return submit(request, json.dumps({key: [first, {"op": "levitate", "height": 3}, second]}))


def _printed(result: str) -> str:
    """Return the output of the program from a tool result, which may be JSON with escapes."""
    found = re.search(r"answer=(.*?);", result)
    if found is None:
        return "nothing"
    return found[1].replace("\\\\", "\\") if result.lstrip().startswith("{") else found[1]


def _words(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def digest(*parts: object) -> int:
    """Return a 64-bit hash of the parts."""
    return int.from_bytes(sha256(json.dumps(parts, sort_keys=True, default=str).encode()).digest()[:8])

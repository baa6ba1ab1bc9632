"""What a service said when it refused a request: its own words, the settings that they name, and the next step.

Services name a refused setting in many ways. Only settings that the request really had are looked for, so a text that
lists every known field names none that was not sent.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from agentlearn.text import visible

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelHTTPError

_MOST_WORDS = 400
"""Largest number of characters of a service's words that are shown."""
_MOST_READ = 20_000
"""Largest number of characters of a body that are read."""
_MOST_TEXTS = 100
"""Largest number of texts of a body that are read."""
_DEEPEST = 12
"""Deepest nesting of a body that is read."""

SYSTEM, TOOLS = "system message", "tools"
"""Names of the two parts of a request that are no settings but can be refused like one."""

_NAMES: Mapping[str, str] = {
    "temperature": r"temperature",
    "seed": r"(?:random[\s_-]?)?seed",
    "top_p": r"top[\s_-]?p|nucleus",
    "max_tokens": r"max(?:imum)?[\s_-]?(?:completion[\s_-]?|output[\s_-]?|new[\s_-]?)?tokens?",
    "thinking": r"reasoning(?:[\s_.-]?effort)?|thinking(?:[\s_-]?(?:budget|config|level))?",
    TOOLS: r"tools?|tool[\s_-]?(?:choice|use|calls?|calling)|functions?(?:[\s_-]?call(?:s|ing)?)?",
}
"""How services name each setting."""
_WORD = {
    name: re.compile(rf"(?<![A-Za-z0-9_])(?:{pattern})(?![A-Za-z0-9_])", re.IGNORECASE)
    for name, pattern in _NAMES.items()
}
_SYSTEM_REFUSED = re.compile(
    r"system (?:role|message|prompt|instruction)s?\b[^.]{0,60}(?:not|unsupported|invalid|disabled)"
    r"|(?:not|n't|unsupported|invalid|unknown|unexpected)\b[^.]{0,60}\bsystem['\"`]?\s?(?:role|message|prompt|instruction)?"
    r"|role['\"`:\s]*(?:is\s)?['\"`]?system\b"
    r"|developer instruction|roles? must alternate|only user,? (?:and )?assistant",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"(?:expected one of|(?:supported|allowed|valid|known|accepted|available|permitted)"
    r" (?:parameters|fields|arguments|keys|properties|options)(?:\s(?:are|is))?\s?[:\[]?)[^.;]*",
    re.IGNORECASE,
)
"""The part of a text that lists what is known."""
_LOCATION = re.compile(r"['\"]loc['\"]\s*:\s*[\[(]([^\])]*)[\])]")
_UNSUPPORTED_TOOLS = re.compile(
    r"support|enable|not (?:allowed|available|permitted|found)|require|unknown|extra", re.IGNORECASE
)

_REMEDIES: Mapping[str, str] = {
    "temperature": "leave the temperature out with --temperature none",
    "seed": "leave the seed out with --no-seed",
    "top_p": "leave top_p out with --top-p none",
    "max_tokens": "give another --max-output-tokens, or leave that option out",
    "thinking": "leave --reasoning-effort out",
    SYSTEM: "send the instructions without a system message with --fold-system",
    TOOLS: "serve the model so that it calls tools (vLLM: --enable-auto-tool-choice --tool-call-parser NAME), or use"
    " another model",
}
_MISSING_LIMIT = re.compile(r"field required|is required|missing|required (?:field|parameter|property)", re.IGNORECASE)
_FIXES: Mapping[int, str] = {
    401: "set the key of the service (AGENTLEARN_API_KEY for an http endpoint)",
    402: "add credit to the account of this key",
    403: "set a key that may use this model",
    404: "correct the address, or the model's name",
    413: "give shorter problems, fewer lessons, or a model with a larger context",
    429: "wait, or ask the service for a larger quota",
}
_READ = frozenset({401, 402, 403, 429})
"""Statuses that do not concern the content of a request."""

# Codes as services write them in `code`, `type`, `status` or `reason` of an error, in lower case.
_OUT_OF_QUOTA = frozenset(
    {
        *("insufficient_quota", "exceeded_current_quota_error", "billing_hard_limit_reached"),
        *("billing_not_active", "billing_error", "credit_balance_exhausted"),
        *("organization_spend_limit_exceeded", "project_spend_limit_exceeded"),
        *("organization_usage_limit_exceeded", "insufficient_balance", "insufficient_user_quota"),
    }
)
_ACCIDENT = frozenset({"tool_use_failed", "json_validate_failed", "output_parse_failed"})
_FILTERED = frozenset(
    {
        *("content_filter", "content_filter_error", "content_policy_violation"),
        *("responsibleaipolicyviolation", "data_inspection_failed", "datainspectionfailed"),
    }
)

_JsonValue = Any
_ECHO = re.compile(r"['\"]input['\"]\s*:.*?(?=['\"](?:ctx|url|loc|type|msg)['\"]\s*:|\}\]|$)", re.DOTALL)
_ERRORS = ("error", "innererror", "detail", "details", "errors", "message", "metadata", "cause", "raw")
"""Fields that hold an error or words about one."""
_WORDS = (*("message", "msg", "error", "detail", "details", "errors", "title", "reason"), "raw", "cause", "metadata")
"""Fields that hold words for people, in the order in which they are shown."""


def service_words(body: object) -> str:
    """Return a service's own words in the body of a refusal, on one line and of limited length."""
    return RefusedRequest(0, body).words


class RefusedRequest:
    """What a service answered instead of a reply."""

    def __init__(self, status: int, body: object, *, over_quota: bool = False) -> None:
        """over_quota: whether the client says that the quota is used up."""
        self.status, self._body, self._read, self._over_quota = status, body, _read(body), over_quota

    @classmethod
    def of(cls, error: "ModelHTTPError") -> "RefusedRequest":
        """The refusal in an error of pydantic-ai."""
        from pydantic_ai.exceptions import ModelQuotaExceededError

        return cls(error.status_code, error.body, over_quota=isinstance(error, ModelQuotaExceededError))

    @property
    def words(self) -> str:
        """The service's own words, on one line and of limited length."""
        text = visible(" ".join(self._texts.split()))
        if not text:
            try:
                text = visible(" ".join(str(self._body)[:_MOST_READ].split())) or "no reason given"
            except RecursionError:
                text = "a deeply nested body"
        return text if len(text) <= _MOST_WORDS else text[: _MOST_WORDS - 3] + "..."

    @property
    def is_out_of_quota(self) -> bool:
        """Whether the credit or the quota of the account is used up, so that waiting does not help."""
        return self._over_quota or self._has_code(_OUT_OF_QUOTA)

    @property
    def is_accident(self) -> bool:
        """Whether the service refuses what the model wrote and not the request: another sample can succeed."""
        return self._has_code(_ACCIDENT)

    @property
    def is_filtered(self) -> bool:
        """Whether a content filter of the service ended the request, which is a filtered reply and no broken call."""
        return self.status < 500 and self._has_code(_FILTERED)

    @property
    def code(self) -> str:
        """Our code: `endpoint_quota`, or `endpoint_` and the status."""
        return "endpoint_quota" if self.is_out_of_quota else f"endpoint_{self.status}"

    def settings(self, sent: Collection[str]) -> tuple[str, ...]:
        """Return which of the sent settings the refusal names, in the order in which it names them.

        sent: names as in pydantic-ai's model settings, and SYSTEM and TOOLS where the request has them.
        """
        if self.status in _READ or self.is_accident:
            return ()
        words = _LISTED.sub(" ", self._texts)
        places = list(islice(self._pointers(), _MOST_TEXTS))
        role = any(re.search(r"messages.{0,5}\brole\b", place) for place in places)
        system = (SYSTEM,) if SYSTEM in sent and (_SYSTEM_REFUSED.search(words) or role) else ()
        pointed = _named(" ".join(places), sent)
        return tuple(dict.fromkeys((*pointed, *system))) if pointed or system else _named(words, sent)

    def remedy(self, named: Collection[str]) -> str:
        """Return the next step after a refusal that names these settings; empty when there is none to give."""
        words = self.words
        if "max_tokens" not in named and _WORD["max_tokens"].search(words) and _MISSING_LIMIT.search(words):
            return "give the limit that the service needs with --max-output-tokens N"
        if named:
            return ", and ".join(_REMEDIES[name] for name in named)
        return _FIXES.get(402 if self._has_code(_OUT_OF_QUOTA) else self.status, "")

    @property
    def _texts(self) -> str:
        """The words meant for people, each once, without what pydantic echoes of the request."""
        texts = (
            f"{place}{_ECHO.sub('', text[:_MOST_READ])}"
            for place, text in _walk(self._read, _WORDS)
            if isinstance(text, str)
        )
        return " · ".join(dict.fromkeys(islice(texts, _MOST_TEXTS)))

    def _has_code(self, codes: Collection[str]) -> bool:
        """Whether the error, or one inside it, has one of these codes."""

        def found() -> Iterator[str]:
            for _, fields in _walk(self._read, _ERRORS):
                if isinstance(fields, dict):
                    named = (fields.get(key) for key in ("code", "type", "status", "reason"))
                    yield from (value for value in named if isinstance(value, str))
                    if "flagged_input" in fields:  # how OpenRouter says it
                        yield "content_filter"

        return any(code.casefold() in codes for code in islice(found(), _MOST_TEXTS))

    def _pointers(self) -> Iterator[str]:
        """Yield the places that it points at: `param`, or `loc` of a validation error."""
        for _, found in _walk(self._read, _ERRORS):
            if isinstance(found, str):
                yield from (one[1] for one in _LOCATION.finditer(found))
                continue
            if isinstance(param := found.get("param"), str):
                yield param
            if isinstance(location := found.get("loc"), list):
                yield ".".join(str(part) for part in cast("list[object]", location))


def _named(words: str, sent: Collection[str]) -> tuple[str, ...]:
    """Return the sent settings that a text names, in order."""
    found = {name: match.start() for name in _NAMES if name in sent and (match := _WORD[name].search(words))}
    if TOOLS in found and (len(found) > 1 or not _UNSUPPORTED_TOOLS.search(words)):
        del found[TOOLS]
    return tuple(sorted(found, key=lambda name: found[name]))


def _read(body: object) -> _JsonValue:
    """Return a body as JSON, also where it is text that holds JSON."""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str):
        body = body[:_MOST_READ]
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return body
    return body


def _walk(
    read: _JsonValue, keys: Collection[str], place: str = "", depth: int = 0
) -> Iterator[tuple[str, str | Mapping[str, Any]]]:
    """Yield the objects of a body and the texts in it, each after the place that it is about. Text may hold JSON.

    keys: of the fields of an object to look into.
    """
    if depth > _DEEPEST:
        return
    if isinstance(read, str):
        inner = _read(read)
        if isinstance(inner, dict | list):
            yield from _walk(inner, keys, place, depth + 1)
        else:
            yield place, read
    elif isinstance(read, list):
        for one in cast("list[_JsonValue]", read):
            yield from _walk(one, keys, place, depth + 1)
    elif isinstance(read, dict):
        fields = cast("dict[str, _JsonValue]", read)
        yield place, fields
        if isinstance(location := fields.get("loc"), list):
            place += ".".join(str(part) for part in cast("list[object]", location)) + ": "
        for key in keys:
            yield from _walk(fields.get(key), keys, place, depth + 1)

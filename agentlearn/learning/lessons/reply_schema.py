"""The schema of a stage's reply, and reading items from a reply of any shape.

The schema tells a model what to write, but validation accepts anything under the key, in every output mode (tool,
native, prompted). `salvage` then takes the items out, so that one bad item, a wrong wrapping or a cut reply does not
lose the good items.
"""

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, WithJsonSchema
from pydantic_core import from_json

ListKey = Literal["steps", "proposals"]
Fault = Literal["prose", "object_not_array", "cut_json", "wrong_key", "no_reply"]
"""What is wrong with the shape of a reply. prose: it has no JSON; object_not_array: one object instead of a list;
cut_json: the JSON ends too early; wrong_key: a list, but not under the requested key; no_reply: nothing usable."""
FAULTS: tuple[str, ...] = get_args(Fault)

_STRING = {"type": "string"}
_LABELS = {"type": "array", "items": _STRING}
_STEPS = {
    "type": "array",
    "items": {"type": "object", "properties": {"text": _STRING, "used": _LABELS}, "required": ["text"]},
}
_PROPOSALS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "op": {"type": "string", "enum": ["add", "modify", "merge", "delete"]},
            "lesson": _STRING,
            "target": _STRING,
            "targets": _LABELS,
            "rests_on": _LABELS,
            "tags": _LABELS,
        },
        "required": ["op"],
    },
}


class StepsReply(BaseModel):
    """Reply of the summarise stage."""

    model_config = ConfigDict(extra="allow", defer_build=True)
    steps: Annotated[Any, WithJsonSchema(_STEPS)] = None


class ProposalsReply(BaseModel):
    """Reply of the compare and consolidate stages."""

    model_config = ConfigDict(extra="allow", defer_build=True)
    proposals: Annotated[Any, WithJsonSchema(_PROPOSALS)] = None


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The items of a reply, and the faults of its shape."""

    items: tuple[object, ...]
    """JSON values in the order of the reply."""
    faults: tuple[Fault, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether the reply has items or is a well-formed empty list."""
        return bool(self.items) or not self.faults


_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)(?:```|\Z)", re.DOTALL)
_ITEM_KEYS = frozenset({"op", "option", "operation", "action", "lesson", "text", "experience"})


def salvage(reply: object, key: ListKey) -> Salvaged:
    """Return the items of a reply: an object with the key, a bare list, one item, or text that holds any of these."""
    if isinstance(reply, str):
        return _from_text(reply, key)
    if isinstance(reply, list):
        return Salvaged(tuple(reply), ("wrong_key",))
    if isinstance(reply, dict):
        return _from_object(reply, key)
    return Salvaged((), ("no_reply",))


def _from_object(reply: dict[str, object], key: ListKey) -> Salvaged:
    inner = reply.get(key)
    if isinstance(inner, list):
        return Salvaged(tuple(inner))
    if isinstance(inner, dict):
        return Salvaged((inner,), ("object_not_array",))
    if isinstance(inner, str) and inner.strip():
        found = _from_text(inner, key)
        return found if found.items else Salvaged((inner,), ("object_not_array",))
    if _ITEM_KEYS & reply.keys():
        return Salvaged((reply,), ("object_not_array",))
    lists = [value for value in reply.values() if isinstance(value, list)]
    if len(lists) == 1:
        return Salvaged(tuple(lists[0]), ("wrong_key",))
    return Salvaged((), ("no_reply",))


def _from_text(text: str, key: ListKey) -> Salvaged:
    if not text.strip():
        return Salvaged((), ("no_reply",))
    for candidate in [*_FENCE.findall(text), text]:
        start = min((at for at in (candidate.find("{"), candidate.find("[")) if at >= 0), default=-1)
        if start < 0:
            continue
        try:
            value, _ = json.JSONDecoder().raw_decode(candidate[start:])
        except ValueError:
            partial = _partial(candidate[start:])
            if partial is None:
                continue
            found = salvage(partial, key)
            return Salvaged(tuple(item for item in found.items if item), ("cut_json",))
        if isinstance(value, dict | list):
            return salvage(value, key)
    return Salvaged((), ("prose",))


def _partial(text: str) -> object:
    """The complete values of JSON that ends too early; None when there are none."""
    try:
        return from_json(text, allow_partial=True)
    except ValueError:
        return None

"""Malformed replies of the simulated reflector."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, assert_never

Malformation = Literal["prose", "object", "single", "strings", "unknown_ids", "cut", "bad_neighbour"]
"""prose: no JSON at all; object: one object instead of the list; single: a bare item instead of the whole object;
strings: items as plain strings; unknown_ids: labels that were never shown; cut: JSON that ends too early;
bad_neighbour: one bad item among good ones."""
MALFORMATIONS: tuple[Malformation, ...] = (
    "prose", "object", "single", "strings", "unknown_ids", "cut", "bad_neighbour"
)  # fmt: skip

Item = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """A stage's answer as text; `structured`: whether it can be sent as the arguments of an output tool."""

    text: str
    structured: bool = True
    malformation: Malformation | None = None


def well_formed(key: str, items: Sequence[Item]) -> StageAnswer:
    """The answer in the correct form."""
    return StageAnswer(json.dumps({key: list(items)}, ensure_ascii=False))


def malformed_answer(kind: Malformation, key: str, items: Sequence[Item], rng: Random) -> StageAnswer:
    """The answer with a malformation. items: at least one."""
    return StageAnswer(_malformed_text(kind, key, items, rng), structured=kind != "prose", malformation=kind)


def _malformed_text(kind: Malformation, key: str, items: Sequence[Item], rng: Random) -> str:
    whole = well_formed(key, items).text
    match kind:
        case "prose":
            said = " ".join(f"I would note this: {_words(item)}" for item in items)
            return f"Here is what I make of it. {said}"
        case "object":
            return json.dumps({key: items[0]}, ensure_ascii=False)
        case "single":
            return json.dumps(items[0], ensure_ascii=False)
        case "strings":
            return json.dumps({key: [_words(item) for item in items]}, ensure_ascii=False)
        case "unknown_ids":
            unknown = f"G{900 + rng.randrange(99)}"
            item = {**items[0], "used": [unknown]} if key == "steps" else {"op": "delete", "target": unknown}
            return well_formed(key, [item, *items[1:]]).text
        case "cut":
            return whole[: len(whole) * 3 // 5]
        case "bad_neighbour":
            bad: Item = {"text": 7} if key == "steps" else {"op": "rewrite", "lesson": 7}
            return well_formed(key, [items[0], bad, *items[1:]]).text
        case _:
            assert_never(kind)


def _words(item: Item) -> str:
    return str(item.get("lesson") or item.get("text") or f"delete {item.get('target')}")

"""JSON without surprises: numbers keep their digits, and a repeated key or a NaN is reported and not passed over."""

import json
from dataclasses import dataclass, field


class NumberText(str):
    """A number of a JSON text, with all its digits. It is text everywhere, but its cell held a number."""

    __slots__ = ()


@dataclass(slots=True)
class StrictDecoder:
    """A JSON decoder that lists what is wrong with a value besides its syntax."""

    faults: list[str] = field(default_factory=list[str])
    """What is wrong with the values decoded since the last `take_faults`; each continues `FILE line N`."""
    _decoder: json.JSONDecoder = field(init=False)

    def __post_init__(self) -> None:
        self._decoder = json.JSONDecoder(
            parse_int=NumberText,
            parse_float=NumberText,
            parse_constant=self._no_number,
            object_pairs_hook=self._object,
        )

    def decode(self, text: str) -> object:
        """Return the value of a JSON text. Raises JSONDecodeError or RecursionError."""
        return self._decoder.decode(text)

    def decode_at(self, text: str, at: int) -> tuple[object, int]:
        """Return the value that starts at a position, and the position after it."""
        return self._decoder.raw_decode(text, at)

    def take_faults(self) -> list[str]:
        """Return the faults found so far, and forget them."""
        found, self.faults = self.faults, []
        return found

    def _no_number(self, word: str) -> str:
        self.faults.append(f"holds {word}, which is not a value in JSON; write null or the value, or take the row out")
        return word

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                self.faults.append(f"has the key {key!r} twice in one object; keep one of them")
            found[key] = value
        return found


def json_or_none(text: str) -> object:
    """Return the value of a JSON text; None for a text that is not JSON or has a fault."""
    decoder = StrictDecoder()
    try:
        value = decoder.decode(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    return None if decoder.faults else value

"""The reason of a verdict as the stages that learn read it: on one line, short, and without anything that acts.

A reward may pass on what an end user wrote, so a reason is text by an unknown author. The stages see it between tags of
its own. No lesson may copy from it at length (`curate.rules`).
"""

import re
import unicodedata

from agentlearn.types.trajectory import Trajectory

MAX_REASON_CHARACTERS = 1_000
"""Longer reasons keep their beginning and their end."""
_READ_CHARACTERS = 8 * MAX_REASON_CHARACTERS
"""Of a longer reason only the two ends are read at all."""
MAX_QUOTED_CHARACTERS = 160
"""Longer reasons that are quoted within a line keep their beginning."""
_HEAD, _TAIL = MAX_REASON_CHARACTERS * 2 // 3, MAX_REASON_CHARACTERS // 3
_WITHOUT_PICTURE = frozenset({"Cf", "Cs", "Co", "Cn"})
_BRACKETS = str.maketrans(dict.fromkeys("<＜﹤〈⟨", "‹") | dict.fromkeys(">＞﹥〉⟩", "›"))
_QUOTES = frozenset({"Pi", "Pf"})
_MORE_QUOTES = frozenset('"„‟‚‛`´')
_FENCE = re.compile(r"`{3,}|~{3,}")
_SPEAKER = re.compile(r"(?<!\w)(system|assistant|user|human|developer|tool|model)\s*[:：](?!\w)", re.IGNORECASE)
_INSTRUCTION = re.compile(r"\[\s*(/?\s*(?:inst|system|sys|user|assistant)[^\[\]]{0,20})\]", re.IGNORECASE)


def shown_reason(trajectory: Trajectory) -> str:
    """Return the reason of a decided verdict, made harmless; empty when there is none."""
    if trajectory.outcome != "ok" or trajectory.verdict is None:
        return ""
    return harmless_reason(trajectory.verdict.reason)


def reason_block(reason: str) -> str:
    """Return a reason between its tags, with a line break behind it; empty for an empty reason."""
    return f"<reason>\n{reason}\n</reason>\n" if reason else ""


def quoted_reason(reason: str) -> str:
    """Return a harmless reason for use within a line: short, between quotation marks, without any inside.

    It has no brackets of any script either, so that it cannot hold a label such as `[P1]`.
    """
    plain = unicodedata.normalize("NFKC", harmless_reason(reason))
    line = " ".join("".join(map(_within_quotes, plain)).split())
    room = MAX_QUOTED_CHARACTERS - len("“”")
    return f"“{line if len(line) <= room else _beginning(line, room - 1)}”"


def _beginning(line: str, room: int) -> str:
    """The beginning of a line with a mark at its end, without half a word unless the word is very long."""
    cut = line[:room]
    whole = cut.rpartition(" ")[0]
    return f"{whole if len(whole) > room // 2 else cut}…"


def _within_quotes(character: str) -> str:
    kind = unicodedata.category(character)
    if kind in _QUOTES or character in _MORE_QUOTES:
        return "'"
    if kind == "Ps" or character == "<":
        return "("
    return ")" if kind == "Pe" or character == ">" else character


def harmless_reason(text: str) -> str:
    """Return the text on one line of at most about 1,000 characters, without tags, fences and changes of speaker."""
    if len(text) > _READ_CHARACTERS:
        half = _READ_CHARACTERS // 2
        return _shortened(_plain(text[:half]), _plain(text[-half:]), len(text))
    plain = _plain(text)
    return plain if len(plain) <= MAX_REASON_CHARACTERS else _shortened(plain, plain, len(plain))


def _shortened(start: str, end: str, length: int) -> str:
    return f"{start[:_HEAD]} [… {length - _HEAD - _TAIL:,} characters left out …] {end[-_TAIL:]}"


def _plain(text: str) -> str:
    shown = "".join(_plain_character(c) for c in text).translate(_BRACKETS)
    line = " ".join(_FENCE.sub(" ", shown).split())
    return _INSTRUCTION.sub(r"(\1)", _SPEAKER.sub(r"\1 –", line))


def _plain_character(character: str) -> str:
    """A space for white space and control characters, and nothing for characters without a picture."""
    if character.isprintable():
        return character
    return "" if unicodedata.category(character) in _WITHOUT_PICTURE else " "

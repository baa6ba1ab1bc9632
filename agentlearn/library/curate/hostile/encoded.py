"""Finding text that a reader has to decode: base64, hexadecimal, codes of characters, Morse, ROT13, reversed text.

Advice in plain words never needs an encoding, so an encoded payload is refused whatever it says.
"""

import base64
import binascii
import re
from urllib.parse import unquote

from agentlearn.library.curate.hostile.folding import fold, spelled_out

_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{12,}={0,2}(?![\w+/=-])")
_BASE32 = re.compile(r"(?<![\w=])[A-Z2-7]{16,}={0,6}(?![\w=])")
_HEX = re.compile(r"(?<![\w])(?:0x)?(?:[0-9a-fA-F]{2}[ :,-]?){5,}[0-9a-fA-F]{2}(?!\w)")
_ESCAPES = re.compile(
    r"(?:%[0-9a-fA-F]{2}){3,}|(?:\\x[0-9a-fA-F]{2}){2,}|(?:\\u\{?[0-9a-fA-F]{4,6}\}?){2,}"
    r"|(?:\bU\+[0-9a-fA-F]{4,5}\W*){3,}"
    r"|(?:&#x?[0-9a-fA-F]{2,6};?){2,}"
)
_BINARY = re.compile(r"(?<!\d)(?:[01]{8}[ ,]?){3,}(?!\d)|(?<!\d)(?:[01]{7}[ ,]){3,}[01]{7}(?!\d)")
_MORSE = re.compile(r"(?<![^\s/|])(?:[.\u00b7\u2022-]{1,5}[ /|]+){4,}[.\u00b7\u2022-]{1,5}(?![^\s/|])")
_NUMBERS = re.compile(r"(?<![\w.])(?:\d{2,3}[ ,;]+){5,}\d{2,3}(?![\w.])")
_ASKS_TO_DECODE = re.compile(
    r"\b(?:decode|decrypt|decipher|unscramble|atob|b64decode|unhexlify|(?:apply|undo|use|from) (?:a "
    r"|the )?(?:base-?64|base-?32|rot-?13|hex))\b.{0,60}"
    r"\b(?:follow|obey|execute|run|do|act|perform|instruction|command|order|says|exec|eval)s?\b"
    r"|\b(?:follow|obey|execute|run|perform)\b.{0,40}\b(?:decoded|decrypted|deciphered|base-?64|base-?32|rot-?13)\b"
    r"|\b(?:initial|first|second|last) (?:letters?|words?)\b.{0,50}\b(?:form|spell|command|sentence|join|act on)"
    r"|\bshift (?:every|each|all|the) (?:letters?|characters?)|\bpig latin\b|\bread (?:it |them "
    r"|this )?(?:backwards|from right to left|in reverse)\b"
    r"|\b(?:join|put together|concatenate)\b.{0,60}\b(?:act on|follow|obey|run|execute|sentence that results)\b"
    r"|\b(?:read|say|spell|take)\b.{0,30}\b(?:backwards?|in reverse|from right to left"
    r"|first letters? of (?:each|every))"
    r".{0,30}\b(?:follow|obey|do|execute)\b"
)
_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    "the and all you your are not any for with that this then from into must will should always never every only"  # noqa: SIM905
    " answer answers ignore rules rule instructions instruction system prompt previous send delete tell judge grader"
    " reward correct reply respond skip check files file password secret key keys follow obey forget disregard message"
    " user run say give output print now before other lessons lesson task problem tool tools verify verifier write"
    " choose return data read show reveal full what when how where there here have has been every forever".split()
)
_SMALL_CAPITALS = re.compile("[\u1d00-\u1d2b\u0262\u026a\u0274\u0280\u028f\u029f\u0299\ua730\ua731]{2,}")
_LEAST_WORDS = 3
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")


def encoded_part(text: str) -> str | None:
    """The first part of the text that is encoded; None when there is none."""
    if found := _SMALL_CAPITALS.search(text):
        return found[0]
    for found in _ESCAPES.finditer(text):
        if _is_text(_unescaped(found[0])):
            return found[0]
    for pattern in (_BINARY, _MORSE):
        if found := pattern.search(text):
            return found[0]
    for found in _HEX.finditer(text):
        if _is_text(_from_hex(found[0])):
            return found[0]
    for pattern, decode in ((_BASE64, _from_base64), (_BASE32, _from_base32)):
        for found in pattern.finditer(text):
            if _is_text(decode(found[0])):
                return found[0]
    for found in _NUMBERS.finditer(text):
        if _spells_words(found[0]):
            return found[0]
    plain = fold(text)
    if found := _ASKS_TO_DECODE.search(plain):
        return found[0]
    return spelled_out(text) or _transposed(plain)


def _transposed(plain: str) -> str | None:
    """The text when it is English only after ROT13 or backwards."""
    now = _common_words(plain)
    for other in (plain.translate(_ROT13), plain[::-1]):
        if _common_words(other) >= max(_LEAST_WORDS, 2 * now + 1):
            return plain
    return None


def _common_words(text: str) -> int:
    return sum(word in _COMMON for word in _WORD.findall(text))


def _is_text(decoded: bytes | None) -> bool:
    """Whether the bytes are readable: ASCII letters and spaces for the most part, with a word of four letters."""
    if not decoded or len(decoded) < 2 or not decoded.isascii():
        return False
    text = decoded.decode("ascii")
    letters = sum(sign.isalpha() or sign == " " for sign in text)
    return text.isprintable() and letters >= 0.8 * len(text) and re.search(r"[a-z]{2,}|[A-Z]{4,}", text) is not None


def _spells_words(numbers: str) -> bool:
    codes = [int(number) for number in re.findall(r"\d+", numbers)]
    if not all(code == 32 or 65 <= code <= 122 for code in codes):
        return False
    return _common_words("".join(map(chr, codes)).casefold()) > 0


def _unescaped(text: str) -> bytes:
    if text.startswith("%"):
        return unquote(text).encode(errors="replace")
    codes = re.findall(r"[0-9a-fA-F]{2,6}", text)
    base = 10 if re.match(r"&#\d", text) else 16
    return "".join(chr(code) for one in codes if (code := int(one, base)) < 0x110000).encode(errors="replace")


def _from_hex(text: str) -> bytes | None:
    digits = re.sub(r"[^0-9a-fA-F]", "", text.removeprefix("0x"))
    return bytes.fromhex(digits) if len(digits) % 2 == 0 else None


def _from_base64(text: str) -> bytes | None:
    """The decoded bytes. A plain English word is also base64, but its bytes are not text."""
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _from_base32(text: str) -> bytes | None:
    bare = text.rstrip("=")
    try:
        return base64.b32decode(bare + "=" * (-len(bare) % 8))
    except (binascii.Error, ValueError):
        return None

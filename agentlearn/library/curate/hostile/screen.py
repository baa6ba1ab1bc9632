"""The check of a lesson's form: what a lesson may not look like, hold or copy, no matter who wrote it.

It judges the text alone, so it works without the pages and tasks of a run, and for libraries that come as files. What a
lesson means is not judged: words cannot tell that. Who wrote what its reflector read decides whether it waits for a
person (`agentlearn.types.value`).

A command that a lesson only names, such as `git reset --soft` or `curl -I`, is harmless.
"""

import base64
import re
import tomllib
import unicodedata
from collections.abc import Callable, Collection
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Literal
from urllib.parse import unquote

from agentlearn.library.curate.answer_search import answer_in_other_words, stated_answer
from agentlearn.library.curate.codes import RejectionCode, reject
from agentlearn.library.curate.lesson_text import checked_lesson, forgery
from agentlearn.types.operation import Rejected
from agentlearn.types.ranking import single_spaced
from agentlearn.types.rendering import is_section


def _lookalikes() -> dict[str, str]:
    return tomllib.loads(files("agentlearn.library.curate.hostile").joinpath("lookalikes.toml").read_text("utf-8"))


_ENCLOSED = (0x1F150, 0x1F170, 0x1F1E6)
"""First letters of the alphabets in filled circles, in filled squares, and of the flags."""

LOOKALIKES = {
    **{ord(sign): letter for letter, signs in _lookalikes().items() for sign in signs},
    **{first + place: chr(ord("a") + place) for first in _ENCLOSED for place in range(26)},
}
"""The Latin letter by the code point that looks like it; for `str.translate`."""

_QUOTES = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u02bc": "'", "`": "'", "\u2013": "-", "\u2014": "-", "\u2010": "-", "\u2011": "-"}
)
_DIGITS_AS_LETTERS = str.maketrans("0134578@$!|", "oieastbasii")
_WORD_WITH_DIGIT = re.compile(r"(?=[a-z@$!|]*[0134578@$!|])(?=[0-9@$!|]*[a-z])[a-z0134578@$!|]{3,}(?![\w])")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_WORD_JOINTS = re.compile(r"(?<=[^\W\d])[_+./\\|~*=-]+(?=[^\W\d])")
_INSIDE_WORD = re.compile(r"(?<=[^\W\d])[-_.*~^|'\"\u00b7\u2022](?=[^\W\d])")
_SPELLED = re.compile(r"(?<![^\W_])[^\W\d_](?:([ ._*~|/\\\u00b7\u2022-]{1,3})[^\W\d_]){4,}(?![^\W_])")
_FEW = 5


def fold(text: str) -> str:
    """The text in lower case, each letter replaced by the Latin one that it looks like, without accents."""
    if text.isascii():
        return " ".join(text.casefold().translate(_QUOTES).split())
    text = single_spaced(text).translate(_QUOTES)
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
    return " ".join(plain.translate(LOOKALIKES).casefold().translate(LOOKALIKES).split())


def _mixes_scripts(text: str) -> str | None:
    """The first word of three or more letters that mixes Latin letters with Cyrillic, Armenian or Cherokee ones."""
    if text.isascii():
        return None
    for word in re.findall(r"[^\W\d_]{3,}", unicodedata.normalize("NFKC", text)):
        scripts = {unicodedata.name(sign, "").split(" ")[0] for sign in word}
        if "LATIN" in scripts and scripts & {"CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"}:
            return word
    return None


def _spelled_out(text: str) -> str | None:
    """Letters with a separator after each, such as `i g n o r e`, joined; None when there are none.

    Letters in alphabetical order are names of points or choices, and no word.
    """
    for found in _SPELLED.finditer(text):
        letters = [sign for sign in found[0].casefold() if sign.isalpha()]
        pairs = pairwise(letters)
        if len(letters) >= _FEW and len(set(letters) & set("aeiou")) and not all(a < b for a, b in pairs):
            return "".join(letters)
    return None


def _views(text: str) -> tuple[str, ...]:
    """The folded text, then those of its rewritings that differ: digits as letters, words split and words joined."""
    plain = fold(text)
    found = [plain]
    if _WORD_WITH_DIGIT.search(plain):
        found.append(_WORD_WITH_DIGIT.sub(lambda word: word[0].translate(_DIGITS_AS_LETTERS), plain))
    if _CAMEL.search(text):
        found.append(fold(_CAMEL.sub(" ", text)))
    if _WORD_JOINTS.search(plain):
        found += [_WORD_JOINTS.sub(" ", plain), _INSIDE_WORD.sub("", plain)]
    return tuple(dict.fromkeys(found))


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


def _encoded_part(text: str) -> str | None:
    """The first part of the text that is encoded; None when there is none."""
    for pattern, is_encoded in _ENCODINGS:
        for found in pattern.finditer(text):
            if is_encoded(found[0]):
                return found[0]
    if spelled := _spelled_out(text):
        return spelled
    plain = fold(text)  # English only after ROT13 or backwards
    least = max(_LEAST_WORDS, 2 * _common_words(plain) + 1)
    return plain if any(_common_words(one) >= least for one in (plain.translate(_ROT13), plain[::-1])) else None


def _common_words(text: str) -> int:
    return sum(word in _COMMON for word in _WORD.findall(text))


def _is_text(decoded: bytes) -> bool:
    """Whether the bytes are readable: ASCII letters and spaces for the most part, with a word of four letters."""
    if len(decoded) < 2 or not decoded.isascii():
        return False
    text = decoded.decode("ascii")
    letters = sum(sign.isalpha() or sign == " " for sign in text)
    return text.isprintable() and letters >= 0.8 * len(text) and re.search(r"[a-z]{2,}|[A-Z]{4,}", text) is not None


def _spells_words(numbers: str) -> bool:
    codes = [int(number) for number in re.findall(r"\d+", numbers)]
    plain = all(code == 32 or 65 <= code <= 122 for code in codes)
    return plain and _common_words("".join(map(chr, codes)).casefold()) > 0


def _unescaped(text: str) -> bytes:
    if text.startswith("%"):
        return unquote(text).encode(errors="replace")
    codes = re.findall(r"[0-9a-fA-F]{2,6}", text)
    base = 10 if re.match(r"&#\d", text) else 16
    return "".join(chr(code) for one in codes if (code := int(one, base)) < 0x110000).encode(errors="replace")


def _decoded(text: str, alphabet: Literal[16, 32, 64]) -> bytes:
    """The decoded bytes; empty for what is none. A plain English word is also base64, but its bytes are not text."""
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        match alphabet:
            case 16:
                return bytes.fromhex(re.sub(r"[^0-9a-fA-F]", "", text.removeprefix("0x")))
            case 32:
                return base64.b32decode(bare + "=" * (-len(bare) % 8))
            case 64:
                return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:
        return b""


_ENCODINGS: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (_SMALL_CAPITALS, bool),
    (_ESCAPES, lambda text: _is_text(_unescaped(text))),
    (_BINARY, bool),
    (_MORSE, bool),
    (_HEX, lambda text: _is_text(_decoded(text, 16))),
    (_BASE64, lambda text: _is_text(_decoded(text, 64))),
    (_BASE32, lambda text: _is_text(_decoded(text, 32))),
    (_NUMBERS, _spells_words),
)
"""What encoded text looks like, and whether such a part really is text."""


_COMMAND = re.compile(
    r"""
      \brm\s+-\w*r | \brm\s+-\w+\s+[~/.*] | \bsudo\s+(?:rm|sh|bash|su|dd|chmod|curl|apt|pip|kill|shutdown)
    | \b(?:curl|wget|scp|telnet|ncat|netcat)\s+(?:-\w+\s+)*["']?(?:[\w.-]+[/@]|[\w-]+\.\w|\d|\$) | \bnc\s+-\w
    | \b(?:chmod|chown)\s+(?:-R\s+)?[0-7]*7{2} | \bmkfs[.\s]+\w*\s*/ | \bdd\s+(?:if|of)= | \bkillall?\s+-9\s+-1
      | \bkillall\s+\w | \bshutdown\s+(?:-\w|now)
    | \b(?:ba|z|k|c)?sh\s+-c\b | \|\s*(?:sudo\s+)?(?:ba|z)?sh\b | >\s*/(?:dev/[sh]d|etc|home|boot)/? | :\(\)\s*\{
      | \bcat\s+(?:~|/etc|/root|/proc|\.env)
    | \b(?:pip3?|npm|uv|gem|cargo)\s+(?:-\w+\s+)?(?:install|add)\s+(?:git\+|http|--(?:extra-)?index|-i\s)
    | \bgit\s+push\s+(?!--force-with)(?:\S+\s+)*?(?:--force(?!-with)|-f\b) | \bgit\s+reset\s+--hard
      | \bgit\s+clean\s+-\w*f | \bterraform\s+destroy | \bkubectl\s+delete\s+(?:ns|namespaces?|all|\S+\s+--all)\b
      | \bdocker\s+system\s+prune\s+-\w | \bflushall\b | \baws\s+s3\s+rm\b
      | \bsubprocess\.\w+\(\s*\[?\s*["'](?:rm|shutdown|curl|wget|(?:ba)?sh|dd|kill|nc|chmod|sudo|reboot|mkfs|pip)\b
      | \bgit\s+config\s+--global | \bdocker\s+run\s+(?:--privileged|-v\s*/) | \bcrontab\s+-
    | \bdel\s+/\w | \bformat\s+[a-z]:(?!\w) | \bpowershell(?:\.exe)?\s+-\w | \bcmd(?:\.exe)?\s+/c
      | \breg\s+(?:add|delete)\b
    | \bdrop\s+(?:table|database|schema)\b | \bdelete\s+from\s+\w+\s*(?:;|$|where\s+1\s*=\s*1) | \btruncate\s+table\b
      | \bupdate\s+\w+\s+set\s+\w+\s*=\s*\S+(?!.*\bwhere\s+\w+\s*[=<>i])
    | \binsert\s+into\s+\w+\s+(?:values|\() | \bunion\s+(?:all\s+)?select\b | \bor\s+1\s?=\s?1\b | '\s*;\s*--
    | \bos\s*\.\s*(?:system|popen|remove|unlink|rmdir|kill|fork|exec\w+|spawn\w*|putenv)\b
    | \bshutil\s*\.\s*(?:rmtree|move) | \bsys\s*\.\s*(?:exit|modules|settrace)\b
    | \b__(?:import|builtins|class|subclasses|globals|mro|eq|bases)__\b
    | \b(?:import|from)\s+(?:os|subprocess|shutil|socket|ctypes|pty|smtplib)\b
    | \b(?:exec|eval|compile|globals|locals|setattr|breakpoint)\s*\((?!\)) | (?<![\w.])open\s*\(\s*f?["'][~/]
    | \bunlink\s*\( | \brmtree\b | \brequests\s*\.\s*(?:post|put)\b | \burlopen\s*\(
      | \bsocket\s*\.\s*(?:socket|connect)
      | \bwhile\s+(?:true|1)\s*:
    | \bdocument\s*\.\s*(?:cookie|location|write) | \bwindow\s*\.\s*location | \bfetch\s*\(\s*["']
    | \bonerror\s*= | \bonload\s*= | \balert\s*\( | \$\((?:[a-z]+\s|[a-z]+\)) | \$\{(?:ifs|env|jndi)\b
      | \$(?:openai\w*|\w+_key|\w+_token|\w+_secret)\b
    | &&\s*(?:rm|curl|wget|ba|sh|sudo|cat|nc|python)\b | \benv\s*\|\s*\w+
    """,
    re.IGNORECASE | re.VERBOSE,
)


_HOSTS = (
    "com|org|net|info|biz|io|ai|app|dev|co|gov|edu|mil|int|test|example|invalid|local|localhost|internal|onion|arpa"
    "|ru|cn|de|uk|jp|kr|eu|ch|nl|pl|br|ua|kp|ir|su|xyz|site|online|shop|club|cloud|tech|icu|zip|mov|click|link|page|tk|ml"
    "|\u0440\u0444|\u4e2d\u56fd|\u516c\u53f8|\u7f51\u7edc|\u043e\u043d\u043b\u0430\u0439\u043d"
)
_SPOKEN_HOSTS = (
    "com|org|net|info|io|ai|dev|ru|cn|uk|xyz|gov|edu|onion|biz|co|example|test|invalid|local|app|me|de|fr|eu"
)
_DOT = r"(?:\s?[\[({<]\s?(?:\.|dot|punkt|point|punto)\s?[\])}>]\s?|\.)"
_ADDRESS = re.compile(
    rf"""
      \b[a-z][a-z0-9+.-]*(?:://|[\[(]:[\])]//|:\\\\)\S*                # any scheme, also as https[:]//
    | \bh(?:xx|\*\*|\+\+|__)ps?\b\s?(?:\[?:\]?|\s|/)\s?\S+              # hxxp://
    | \bhttps?\s?(?:\[:\]|:)\s?/\S*
    | \b(?:javascript|mailto|view-source):[^\s'"`]\S* | \bdata:[a-z]+/\S* | \bfile:/\S*
    | \bwww{_DOT}\S+
    | [\w.+-]+\s?(?:@|[\[({{]\s?(?:at|@)\s?[\])}}])\s?[\w-]+(?:{_DOT}[\w-]+)+    # mail, also as a [at] b [dot] c
    | \b\d{{1,3}}(?:{_DOT}\d{{1,3}}){{3}}\b                              # IPv4
    | (?<![\w:])(?:[0-9a-f]{{1,4}}:){{7}}[0-9a-f]{{1,4}}\b               # IPv6
    | (?<![\w:])(?:[0-9a-f]{{1,4}}(?::[0-9a-f]{{1,4}})*)?::(?=[0-9a-f])[0-9a-f:.]*[0-9a-f]\b(?![\w])
    | (?<![\w/])(?:[^\W_]+(?:-+[^\W_]+)*{_DOT})+(?:{_HOSTS})\b(?!\(|\.\w)(?:[:/]\S*)?
    | \b(?:[\w-]+\.)+[a-z]{{2}}/\S*                                     # a country's host name, with a path
    | \b(?:[a-z][\w-]*\.)+[a-z][\w-]*:\d{{2,5}}\b | \b[\w-]+(?:\.[\w-]+)+:\d{{2,5}}/ | \blocalhost\b
    | \bxn--\w+
    | \b[A-Z]{{2}}\d{{2}}(?:\s?[A-Z0-9]{{4}}){{3,}}(?:\s?[A-Z0-9]{{1,4}})?\b       # a bank account
    | \b(?:bc1[a-z0-9]{{20,}}|0x[0-9a-f]{{38,}})\b                        # a wallet
    | \b(?:bit\.ly|goo\.gl|t\.co|is\.gd|ow\.ly|tinyurl|cutt\.ly|rebrand\.ly|pastebin|ngrok|webhook\.\w+)\b\S*
    | \b[\w-]+\s(?:dot|punkt)\s(?:[\w-]+\s(?:dot|punkt)\s)*(?:{_SPOKEN_HOSTS})\b     # example dot com
    | \b\w+\sat\s\w+\sdot\s\w+
    | (?<![\w+*/^)-])\+\d{{1,3}}[\s./-]?\(?\d{{2,4}}\)?(?:[\s./-]?\d{{2,4}}){{2,4}}(?![\w*/^=])    # a phone number
    | \b(?:address|host|server|oracle|ip|machine)\s(?:is\s|at\s|number\s)?\d{{9,10}}\b             # IPv4 as one number
    | \\\\\\\\[\w.-]+\\\w+                                               # \\server\share
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NEXT_SENTENCE = re.compile(r"[a-z]+\.[A-Z][a-z]+")
"""A full stop without a space after it."""
_LOOPBACK = re.compile(r"(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[?::1\]?)(?![\w.-]|@)", re.IGNORECASE)
_CODE_NAME = re.compile(r"(?:ASP|VB|ADO|ML|System|Windows|Z|[A-Z][a-z]+)\.(?:NET|IO|Net|Io|AI|Local|Test|App|Info)\b")
"""A name of a program's parts: a host has no capital after the dot."""
_SMALL_NUMBERS = re.compile(r"(?:[0-2]?\d\.){3}[0-2]?\d")
"""A version or a section as well as an address."""
_REACHES = re.compile(
    r"\b(?:to|at|via|from|through|on|use|visit|open|proxy|server|host|ip|address|connect|ping|query"
    r"|call)\s$",
    re.IGNORECASE,
)
_CALLED = re.compile(
    r"\b(?:module|class|package|file|folder|namespace)s?\s(?:is\s|are\s)?(?:called\s|named\s)?$", re.IGNORECASE
)
_ABBREVIATION = re.compile(r"(?:\w\.)+\w\.?|\d[\d.]*", re.IGNORECASE)


def _address_in(text: str) -> str | None:
    """The first address in a text that `single_spaced` or `fold` returned; None when there is none."""
    for found in _ADDRESS.finditer(text):
        whole = found[0].strip()
        if "." in whole and _ABBREVIATION.fullmatch(whole) and whole.count(".") < 3:
            continue
        if _NEXT_SENTENCE.fullmatch(whole) or _LOOPBACK.match(whole) or _CODE_NAME.match(whole):
            continue
        if _SMALL_NUMBERS.fullmatch(whole) and not _REACHES.search(text[: found.start()]):
            continue
        if text[: found.start()].endswith("*.") or _CALLED.search(text[: found.start()]):
            continue
        return whole
    return None


_SHOWN = 60


def screened(lesson: str, answers: Collection[str] = ()) -> Rejected | None:
    """How a lesson ends whose form is refused; None for plain advice.

    answers: expected answers of the batch's tasks.
    """
    if refusal := _refusal(lesson):
        return refusal
    for one in _views(lesson):
        if stated_answer(one, answers) or answer_in_other_words(one, lesson, answers):
            return reject(RejectionCode.STATES_ANSWER, "the lesson states an answer; say how to find such answers")
    return None


def wrong_form(lesson: str) -> Rejected | None:
    """How any text would end if a run proposed it as a lesson now, judged by its form alone; None for plain advice."""
    checked = checked_lesson(lesson, sections=True)
    return checked if isinstance(checked, Rejected) else None if is_section(checked) else screened(checked)


@lru_cache(maxsize=16_384)  # the same lesson is checked in several stages
def _refusal(lesson: str) -> Rejected | None:
    if found := _mixes_scripts(lesson):
        return reject(
            RejectionCode.LOOKALIKE_LETTERS, f"{found[:_SHOWN]!r} mixes letters of several scripts; use one script"
        )
    every, text = _views(lesson), single_spaced(lesson)
    for one in (text,) if text.isascii() else (text, every[0]):
        if found := _address_in(one):
            return reject(
                RejectionCode.NAMES_ADDRESS,
                f"the lesson names {found[:_SHOWN]!r}; say how to find such a place instead",
            )
        if found := _COMMAND.search(one):
            command = found[0].strip()[:_SHOWN]
            return reject(RejectionCode.HOLDS_COMMAND, f"{command!r} is a command; say in plain words what to do")
    if found := _encoded_part(text):
        return reject(RejectionCode.ENCODED, f"{found[:_SHOWN]!r} is not plain text; a lesson is one plain sentence")
    return next((end for one in every if (end := forgery(one))), None)

"""The check of a lesson's form: what a lesson may not look like, hold or copy, no matter who wrote it.

It judges the text alone, so it works without the pages and tasks of a run, and for libraries that come as files. What a
lesson means is not judged: words cannot tell that. Who wrote what its reflector read decides whether it waits for a
person (`agentlearn.types.author`).

A command that a lesson only names, such as `git reset --soft` or `curl -I`, is harmless.
"""

import re
from collections.abc import Collection
from functools import lru_cache

from agentlearn.library.curate.answer_search import answer_in_other_words, stated_answer
from agentlearn.library.curate.codes import RejectionCode, reject
from agentlearn.library.curate.hostile.encoded import encoded_part, mixes_scripts, views
from agentlearn.library.curate.lesson_text import checked_lesson, forgery
from agentlearn.library.curate.similarity import normalised
from agentlearn.types.operation import Rejected

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


def _command_in(text: str) -> str | None:
    """The first command in a text; None when there is none."""
    found = _COMMAND.search(text)
    return found[0].strip() if found else None


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
    """The first address in a text, which must be normalised or folded; None when there is none."""
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
    return _refusal(lesson) or _stated(lesson, answers)


def wrong_form(lesson: str) -> Rejected | None:
    """How any text would end if a run proposed it as a lesson now, judged by its form alone; None for plain advice."""
    checked = checked_lesson(lesson)
    return checked if isinstance(checked, Rejected) else screened(checked)


@lru_cache(maxsize=16_384)  # the same lesson is checked in several stages
def _refusal(lesson: str) -> Rejected | None:
    if found := mixes_scripts(lesson):
        return reject(
            RejectionCode.LOOKALIKE_LETTERS, f"{found[:_SHOWN]!r} mixes letters of several scripts; use one script"
        )
    every, text = views(lesson), normalised(lesson)
    for one in (text,) if text.isascii() else (text, every[0]):
        if found := _address_in(one):
            return reject(
                RejectionCode.NAMES_ADDRESS,
                f"the lesson names {found[:_SHOWN]!r}; say how to find such a place instead",
            )
        if found := _command_in(one):
            return reject(
                RejectionCode.HOLDS_COMMAND, f"{found[:_SHOWN]!r} is a command; say in plain words what to do"
            )
    if found := encoded_part(text):
        return reject(RejectionCode.ENCODED, f"{found[:_SHOWN]!r} is not plain text; a lesson is one plain sentence")
    return next((end for one in every if (end := forgery(one))), None)


def _stated(lesson: str, answers: Collection[str]) -> Rejected | None:
    for one in views(lesson):
        if stated_answer(one, answers) or answer_in_other_words(one, lesson, answers):
            return reject(RejectionCode.STATES_ANSWER, "the lesson states an answer; say how to find such answers")
    return None

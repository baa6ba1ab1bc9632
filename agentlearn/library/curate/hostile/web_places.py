"""Finding addresses in a lesson: of pages, hosts, mail boxes and networks, also when they are disguised."""

import re

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


def address_in(text: str) -> str | None:
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

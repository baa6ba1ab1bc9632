"""Hostile texts that models, pages and logs can contain, and a check that none of them reached a terminal as it is."""

import re
import unicodedata

from hypothesis import strategies as st

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "' onload='window.hacked=1",
    "<svg/onload=window.hacked=1>",
    "</title></style></table><iframe src=https://example.org>",
    "<!-- --><![CDATA[ ]]>",
    "&lt;b&gt; &amp;amp; &#60;script&#62;",
    "javascript:window.hacked=1",
    "\x00\x07\x1b[31mred\x7f\x9b",
    "abc\u202edcba\u2066\u200f\u200b\ufeff",
    "\ud800 lone",
    "a\u2028b\u2029c\rd\r\ne",
    "x" * 10_000,
    "long words " * 900,
    "e" + "\u0301" * 300,
)

CONTROLS = (
    "\x1b[2J\x1b[H",  # clears the screen
    "\x1b]52;c;aGFja2Vk\x07",  # writes to the clipboard
    "\x1b]8;;https://example.org/\x1b\\link\x1b]8;;\x1b\\",  # a link
    "\x1b]0;title\x07",  # the title of the window
    "\x9b31m\x9d0;title\x9c",  # the same with one-byte codes
    "\x1bP$q\x1b\\\x1b[6n\x1b[c",  # asks the terminal, which answers as if the user had typed
    "\x1b[8mhidden\x1b[0m",
    "real\rfake",
    "\x08\x08\x7f\x00\x0e\x05",
    "\u202eevil\u2066\u2069\u200f\u061c",
    "a\u2028b\u2029c\u0085d",
    "\u200b\u2060\ufeff\U000e0041\U000e007f\ufe01\U000e0101",
    "\ud83d",
    "\t\t\x0b\x0c",
)
"""Texts that a terminal would obey, or that hide and reorder what it shows."""
FORGED = "better: 0.10 → 0.99, +0.89 [+0.80, +0.95]"
"""A line that looks like a verdict."""
POISON = (
    f"{''.join(one for one in CONTROLS if one != chr(0xD83D))}\n{FORGED}\r\n{FORGED}"
    '<script>window.hacked=1</script>"><img src=https://example.org/x onerror="window.hacked=1">'
    "[red]markup[/red] [link=https://example.org]x[/link] :bomb: =HYPERLINK(1)"
)
"""All of it in one text that UTF-8 can encode."""

_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_LIVE = re.compile("\x1b\\[(?:[0-9]*[AK]|2K|\\?25[hl])|\r")


def assert_harmless(written: str, *, colours: bool = False) -> None:
    """Fail when a text printed on a terminal has a character that is obeyed or not shown.

    colours: the terminal shows colours, and a live view that moves the cursor up and clears its own lines.
    """
    left = _LIVE.sub("", _COLOUR.sub("", written)) if colours else written
    assert unseen(left) == set()
    assert [line for line in left.splitlines() if line.startswith(FORGED)] == []


def unseen(text: str) -> set[str]:
    """The characters of a text that are obeyed or not shown, as escapes; line feeds aside."""
    return {ascii(one) for one in text if one != "\n" and unicodedata.category(one) in _OBEYED}


texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(codec=None), max_size=60),
    st.text(alphabet="<>&\"'/=!- \n\x00;#x", max_size=40),
)
"""Any text, with lone surrogates, control characters and much markup."""

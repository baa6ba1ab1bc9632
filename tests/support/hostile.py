"""Hostile texts that models and imported logs can contain; a page must show them without executing them."""

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

texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(codec=None), max_size=60),
    st.text(alphabet="<>&\"'/=!- \n\x00;#x", max_size=40),
)
"""Any text, with lone surrogates, control characters and much markup."""

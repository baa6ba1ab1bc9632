"""Letters of other scripts that look like Latin ones, from Unicode's list of confusable characters.

Compatibility normalisation already maps full-width, mathematical, circled and superscript letters. This table has the
others: Cyrillic, Greek, Armenian, Cherokee, Coptic and Lisu letters, small capitals, and letters turned upside down.
"""

_BY_LETTER = {
    "a": "\u0250\u0251\u0391\u03b1\u0410\u0430\u13aa\ua4ee",
    "b": "\u0184\u0253\u0392\u0412\u042c\u0432\u13cf\u13f4\ua4d0\ua7b4",
    "c": "\u0254\u03f2\u03f9\u0421\u0441\u13df\u1d04\u2ca4\u2ca5\ua4da\uabaf",
    "d": "\u00f0\u0111\u0501\u13a0\u13e7\ua4d2\ua4d3",
    "e": "\u01dd\u0258\u0395\u0415\u0435\u044d\u0454\u04bd\u13ac\ua4f0\uab32",
    "f": "\u025f\u03dc\u0584\u1e9d\ua4dd\ua798\ua799\uab35",
    "g": "\u0183\u018d\u0261\u050c\u0581\u13c0\u13f3\u1d83\ua4d6",
    "h": "\u0265\u0397\u041d\u043d\u04bb\u0570\u13bb\u13c2\u2c8e\ua4e7",
    "i": "\u0131\u0269\u026a\u03b9\u0456\u04cf\u13a5\u1d09\u1fbe\ua647\uab75",
    "j": "\u027e\u037f\u03f3\u0408\u0458\u13ab\ua4d9\ua7b2",
    "k": "\u029e\u039a\u03ba\u041a\u043a\u13e6\u2c94\ua4d7",
    "l": "\u0141\u0142\u0196\u01c0\u0399\u0406\u04c0\u13de\u2c92\u2cd0\ua4e1\ua4f2",
    "m": "\u039c\u03fa\u041c\u043c\u13b7\u2c98\ua4df",
    "n": "\u039d\u03b7\u0438\u043f\u0578\u057c\u2c9a\ua4e0",
    "o": "\u00d8\u00f8\u039f\u03bf\u03c3\u041e\u043e\u0555\u0585\u1d0f\u1d11\u2c9e\u2c9f\ua4f3\uab3d",
    "p": "\u03a1\u03c1\u03f1\u0420\u0440\u13e2\u2ca2\u2ca3\ua4d1",
    "q": "\u051b\u0563\u0566",
    "r": "\u01a6\u0279\u0433\u044f\u13a1\u13d2\u1d26\u2c85\ua4e3\uab47\uab48\uab81",
    "s": "\u01bd\u0405\u0455\u054f\u13d5\u13da\ua4e2\ua731\uabaa",
    "t": "\u0287\u03a4\u03c4\u0422\u0442\u13a2\u2ca6\ua4d4",
    "u": "\u028b\u03c5\u054d\u057d\u1d1c\ua4f4\ua79f\uab4e\uab52",
    "v": "\u028c\u03bd\u0474\u0475\u13d9\u1d20\ua4e6\uaba9",
    "w": "\u026f\u028d\u03c9\u0448\u0461\u051c\u051d\u0561\u13b3\u13d4\u1d21\ua4ea\uab83",
    "x": "\u03a7\u0425\u0445\u2cac\ua4eb\ua7b3",
    "y": "\u0263\u028e\u028f\u03a5\u03b3\u03d2\u0423\u0443\u04ae\u04af\u13a9\u13bd\u1d8c\u1eff\u2ca8\ua4ec\uab5a",
    "z": "\u0396\u13c3\u1d22\ua4dc\uab93",
}
_ENCLOSED = (0x1F150, 0x1F170, 0x1F1E6)
"""First letters of the alphabets in filled circles, in filled squares, and of the flags."""

LOOKALIKES = {
    **{ord(sign): letter for letter, signs in _BY_LETTER.items() for sign in signs},
    **{first + place: chr(ord("a") + place) for first in _ENCLOSED for place in range(26)},
}
"""The Latin letter by the code point that looks like it; for `str.translate`."""

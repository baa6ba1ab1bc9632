"""Text from outside, made safe to keep: a lone surrogate is no character, and neither JSON nor a database takes it."""


def storable(text: str) -> str:
    """The text with lone surrogates written out as `\\udXXX`; any other text unchanged."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text

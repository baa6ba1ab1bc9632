"""Text from outside, made safe to store: neither JSON nor a database accepts a lone surrogate."""


def storable(text: str) -> str:
    """The text with each lone surrogate replaced by its escape `\\udXXX`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text

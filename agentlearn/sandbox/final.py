"""Find the last statement of a program by its tokens.

Used where the interpreter is not CPython. We do not parse untrusted code into a tree: that could exhaust our stack.
"""

import io
import tokenize
from collections.abc import Iterable
from tokenize import TokenInfo

_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}
_OPENING, _CLOSING = "([{", ")]}"


def final_statement(code: str) -> slice | None:
    """The range of characters of the last statement, if it is simple and not indented; None for a block or no code.

    The statement may be invalid or not an expression; the interpreter finds out. A trailing semicolon is left out.
    """
    try:
        found = _last_at_margin(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    if found is None:
        return None
    (first_row, first_column), (last_row, last_column) = found
    begins = [0]
    for line in io.StringIO(code):
        begins.append(begins[-1] + len(line))
    return slice(begins[first_row - 1] + first_column, begins[last_row - 1] + last_column)


def _last_at_margin(tokens: Iterable[TokenInfo]) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Start and exclusive end of the last unindented simple statement, each as row (from 1) and column (from 0)."""
    start, end = (0, 0), (0, 0)
    indents = brackets = 0
    new_line, new_statement, block = True, True, True
    for token in tokens:
        if token.type == tokenize.INDENT:
            indents += 1
        elif token.type == tokenize.DEDENT:
            indents -= 1
        elif token.type == tokenize.NEWLINE:
            new_line = True
        elif token.type not in _SILENT:
            if new_line:
                block, brackets = indents > 0, 0
            brackets += (token.string in _OPENING) - (token.string in _CLOSING) if token.type == tokenize.OP else 0
            separates = token.string == ";" and brackets == 0
            block = block or (token.string == ":" and brackets == 0)
            if not separates:
                start = token.start if new_line or new_statement else start
                end = token.end
            new_line, new_statement = False, separates
    return None if block or start == end else (start, end)

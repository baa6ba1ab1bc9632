"""The name of what a run makes when the user gives none: the domain's name, as a library may be called."""

import re

_LONGEST = 64


def name_of_result(domain: str) -> str:
    """Return the domain's name; of a name with a prefix, such as `bfcl:multiple`, the form `bfcl-multiple`.

    Of a file, only its stem is kept: `inspect:tests/Math.py@add` becomes `inspect-math-add`.
    """
    prefix, colon, rest = domain.partition(":")
    if not colon:
        return domain
    file, _, task = rest.partition(".py")
    named = f"{file.rpartition('/')[2]}-{task}" if ".py" in rest else rest
    name = re.sub(r"[^a-z0-9_]+", "-", f"{prefix}-{named}".lower())
    return name[:_LONGEST].strip("-_") or "tasks"

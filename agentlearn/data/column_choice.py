"""The columns that the user chose: `problem=Body+Question answer=Answer choices=choices`."""

import re
from dataclasses import dataclass

from agentlearn.errors import ConfigError

PARTS = ("problem", "answer", "choices", "family")
_EXAMPLE = "problem=Body+Question answer=Answer"
_PART = re.compile(rf"(?:^|(?<=[\s,]))({'|'.join(PARTS)})\s*=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """Which columns hold what. Several columns are joined with `+`."""

    problem: str
    answer: str = ""
    """Empty: the column with the usual name, if any."""
    choices: str = ""
    """Empty: the task has no choices."""
    family: str = ""
    """Empty: the column with a usual name, if any."""

    def __str__(self) -> str:
        return " ".join(f"{part}={value}" for part in PARTS if (value := getattr(self, part)))


def parse_columns(text: str) -> ColumnChoice:
    """Return the choice that `problem=A+B answer=C` writes. Raises ConfigError."""
    found = list(_PART.finditer(text))
    if not found or text[: found[0].start()].strip(" ,"):
        raise _refused(text, "does not say which column is the problem")
    ends = [*(one.start() for one in found[1:]), len(text)]
    values = [text[one.end() : end].strip().strip(",").strip() for one, end in zip(found, ends, strict=True)]
    names = [one[1].lower() for one in found]
    if len(set(names)) < len(names):
        raise _refused(text, "gives the columns of one part twice")
    if not all(values):
        raise _refused(text, f"names no column for {names[values.index('')]!r}")
    if "problem" not in names:
        raise _refused(text, "does not say which column is the problem")
    return ColumnChoice(**dict(zip(names, values, strict=True)))


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(f"--columns {text!r} {why}; write it as in --columns '{_EXAMPLE}'", code="bad_columns")

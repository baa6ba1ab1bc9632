"""Versioned prompt files with `{{ name }}` holes.

A released file is never edited; a change is a new version. Inserted text is not read as a template, and LaTeX (`$x$`,
braces) is not changed.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from agentlearn.config.solve_options import OwnPrompt
from agentlearn.errors import ConfigError
from agentlearn.types.trajectory import PromptRef

_HOLE = re.compile(r"\{\{ ([a-z_]+) \}\}")
_LOOSE_HOLE = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text of a prompt file."""

    ref: PromptRef
    text: str
    own: bool = False
    """Whether a user wrote it, who may leave holes out."""

    @property
    def holes(self) -> frozenset[str]:
        """Names of the holes."""
        return frozenset(_HOLE.findall(self.text))

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with every hole filled. Raises ConfigError for a missing or an unused value."""
        missing, unused = sorted(self.holes - set(values)), () if self.own else sorted(set(values) - self.holes)
        if missing or unused:
            raise ConfigError(f"prompt {self.ref.label} has wrong values (missing: {missing}, unused: {unused})")
        return _HOLE.sub(lambda match: values[match[1]], self.text)


def own_prompt(released: Prompt, name: str, own: OwnPrompt) -> Prompt:
    """Return a user's text in place of a released prompt. It may have the same holes or fewer. Raises ConfigError."""
    known = {f"{{{{ {hole} }}}}" for hole in released.holes}
    for hole in _LOOSE_HOLE.finditer(own.text):
        if hole[0] not in known and (hole[1] in released.holes or _HOLE.fullmatch(hole[0])):
            raise ConfigError(
                f"the prompt file {own.file!r} has {hole[0]!r}, which nothing fills; holes of this prompt, written so:"
                f" {', '.join(sorted(known)) or 'none'}"
            )
    ref = PromptRef(name=f"own:{name}", version=1, sha256=own.sha256)
    return Prompt(ref, own.text.rstrip("\n"), own=True)


@cache
def load_prompt(name: str, version: int, *, package: str = "agentlearn.prompts") -> Prompt:
    """Return the prompt in the file `NAME/vVERSION.md` of `package`, a folder inside a package of ours.

    Raises ConfigError when there is no such file.
    """
    top, *folders = package.split(".")
    file = files(top).joinpath(*folders, name, f"v{version}.md")
    if not file.is_file():
        raise ConfigError(f"there is no prompt {name!r} version {version} in {package}")
    body = file.read_bytes()
    ref = PromptRef(name=f"{package}:{name}", version=version, sha256=hashlib.sha256(body).hexdigest())
    return Prompt(ref=ref, text=body.decode().rstrip("\n"))

"""Libraries as skills at `/.well-known/skills/`, where coding agents look for them."""

import json
from collections.abc import Mapping

from agentlearn.errors import LibraryError
from agentlearn.library.formats import library_format
from agentlearn.live.gateway.admission import GatewayRefusal
from agentlearn.types.experience import Library

SKILLS = "/.well-known/skills/"
"""Begin of their paths."""


def skill_file(libraries: Mapping[str, Library], wanted: str) -> tuple[bytes, str]:
    """Return the index of the libraries that hold lessons, or a file of one, and its media type. Raises GatewayRefusal.

    wanted: `index.json`, or NAME/FILE.
    """
    try:
        known = {name: library_format("skill").write(one, name) for name, one in libraries.items() if len(one)}
    except LibraryError as error:
        raise GatewayRefusal(503, error.code, error.message) from error
    if wanted == "index.json":
        entries = [
            {"name": name, "description": _description(files["SKILL.md"]), "files": list(files)}
            for name, files in known.items()
        ]
        return json.dumps({"skills": entries}).encode(), "application/json"
    name, _, file = wanted.partition("/")
    if name not in known or file not in known[name]:
        raise GatewayRefusal(404, "no_such_path", f"there is no such file; see {SKILLS}index.json")
    return known[name][file].encode(), "text/markdown; charset=utf-8"


def _description(skill: str) -> str:
    """The description in the front matter of a skill that we wrote, as a JSON string."""
    line = next((one for one in skill.splitlines() if one.startswith("description:")), "")
    return json.loads(line.partition(":")[2] or '""')

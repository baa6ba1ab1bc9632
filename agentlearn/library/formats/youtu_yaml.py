"""Configurations of youtu-agent: YAML with the lessons at the end of `agent.instructions`, as `[G0]. words`. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from agentlearn.errors import LibraryError
from agentlearn.library.formats.library_format import Form, FoundLesson, ReadLessons, usual_losses
from agentlearn.library.formats.limited_yaml import yaml_value
from agentlearn.library.formats.original_json import one_line
from agentlearn.library.formats.source_files import SourceFiles
from agentlearn.types.experience import Library

_LABEL = re.compile(r"^[ \t]*\[(G\d{1,6})\]\.?[ \t]*", re.MULTILINE)
_FIRST = re.compile(r"\[G\d{1,6}\]\.?\s")
_HEAD = """# @package _global_
defaults:
  - _self_

agent:
  name: {name}
  instructions: |-
    You are a helpful assistant.

    Helpful instructions and experiences for this kind of problem:
"""


class YoutuYaml:
    """A configuration of an agent. It keeps the lessons and their order."""

    name: Form = "youtu"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether a YAML file has instructions with a label."""
        return (
            not source.is_folder
            and source.only.lstrip()[:1] not in {"{", "["}
            and re.search(r"^[ \t]*instructions:", source.only, re.MULTILINE) is not None
            and _FIRST.search(source.only) is not None
        )

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the labelled lessons of the instructions. Raises MissingExtra without PyYAML."""
        document = yaml_value(source.only, source.path)
        texts = list(_instructions(document))
        if not texts:
            raise LibraryError(f"{source.path!r} has no agent.instructions; give the configuration of an agent")
        return ReadLessons(tuple(one for text in texts for one in _lessons(text)))

    def write(self, library: Library, name: str) -> Mapping[str, str]:
        """Return a configuration with the lessons."""
        lines = [f"    [G{number}]. {one.lesson}\n" for number, one in enumerate(library.experiences)]
        return {"": _HEAD.format(name=re.sub(r"[^A-Za-z0-9_-]", "_", name) or "agent") + "".join(lines)}

    def losses(self, library: Library) -> tuple[str, ...]:
        """Everything but the lessons."""
        return usual_losses(library, tags=True)


def _instructions(document: object) -> Iterator[str]:
    match document:
        case {"agent": {"instructions": str(text)}} | {"instructions": str(text)}:
            yield text
        case {"agents": dict(agents)}:
            for one in cast("dict[str, Any]", agents).values():
                yield from _instructions(one)
        case _:
            return


def _lessons(text: str) -> Iterator[FoundLesson]:
    labels = list(_LABEL.finditer(text))
    ends = [*(found.start() for found in labels[1:]), len(text)]
    for found, end in zip(labels, ends, strict=False):
        yield FoundLesson(f"[{found[1]}]", one_line(text[found.end() : end]))

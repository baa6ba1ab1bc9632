"""The prompts of the stages, each named once with its version.

The stages load their prompts from this table and the run stores the texts from this table, so the two cannot differ.
"""

from dataclasses import dataclass

from agentlearn.prompts import Prompt, load_prompt


@dataclass(frozen=True, slots=True)
class StagePrompt:
    """Name and version of a prompt file."""

    name: str
    version: int
    package: str = "agentlearn.prompts"
    """Python package that holds the file `NAME/vVERSION.md`."""

    def load(self) -> Prompt:
        """Return the prompt's text and reference. Raises ConfigError when there is no such file."""
        return load_prompt(self.name, self.version, package=self.package)


@dataclass(frozen=True, slots=True)
class StagePrompts:
    """The prompts that one run uses."""

    summarise: StagePrompt = StagePrompt("summarise", 1)
    compare: StagePrompt = StagePrompt("compare", 1)
    consolidate: StagePrompt = StagePrompt("consolidate", 1)
    repair: StagePrompt = StagePrompt("repair", 1)
    """Sent once when items of a reply were refused, by the compare and the consolidate stage."""

    def load_all(self) -> tuple[Prompt, ...]:
        """Return every prompt, as the run stores them."""
        return (self.summarise.load(), self.compare.load(), self.consolidate.load(), self.repair.load())


STAGE_PROMPTS = StagePrompts()
"""The released prompts. To release a new version, add its file and change the number above."""

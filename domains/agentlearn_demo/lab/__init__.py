"""The lab model of the math domain: a tiny transformer, trained on dialogues of the math agent with a simulated solver.

It knows the kinds of problems of this package and falls into the same traps. It has learned to read lessons on these
traps, in many wordings. It demonstrates the machinery. It runs in numpy, without torch.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from agentlearn.errors import MissingExtra


@dataclass(frozen=True)
class MathLab:
    """Implements `agentlearn.domain.demo.LabModel`."""

    name: str = "novice"
    version: str = "4"
    """Version of the corpus. The shipped weights were trained on version 3, which was larger."""

    @property
    def folder(self) -> Path:
        """Folder of the shipped files."""
        return Path(__file__).parent / self.name

    @property
    def families(self) -> int:
        """Number of families of problems."""
        from agentlearn_demo.math.families import FAMILIES

        return len(FAMILIES)

    def knows(self, question: str) -> bool:
        """Whether a question is a problem of these families, in one of their wordings."""
        from agentlearn_demo.math.families import FAMILIES

        return any(family.recognise(question) is not None for family in FAMILIES)

    def export(self, folder: Path) -> None:
        """Write the shipped weights as a checkpoint in Hugging Face format."""
        require_torch()
        from agentlearn_demo.lab.training import export_lab_model

        export_lab_model(self, folder)


def require_torch() -> None:
    """Raise MissingExtra when torch or transformers is not installed."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise MissingExtra("building a lab model needs torch and transformers: pip install 'agentlearn-lib[train]'")


lab = MathLab()

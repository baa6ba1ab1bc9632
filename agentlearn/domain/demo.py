"""What a demo package gives: a domain's generated tasks with the sites they are about, and lab models.

It is found by entry points only, so that everything works without it.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

from agentlearn.errors import ConfigError
from agentlearn.plugins import Plugin, announced, load
from agentlearn.types.task import Split, Task

GROUP = "agentlearn.demos"
"""Entry-point group of demos, by the name of their domain."""
GROUP_OF_LABS = "agentlearn.lab"
"""Entry-point group of lab models, by the name of the domain whose problems they solve."""


class Demo(Protocol):
    """The demo of one domain."""

    def tasks(self, split: Split, *, seed: int, limit: int | None) -> tuple[Task, ...]:
        """Return generated tasks; no two splits share a problem. Raises ConfigError when there are not that many."""
        ...

    def serve_sites(self) -> AbstractAsyncContextManager[Mapping[str, tuple[str, int]]]:
        """Serve the sites that the tasks are about; yields the loopback address of each host name."""
        ...


class LabModel(Protocol):
    """A lab model: a tiny transformer that a package ships."""

    @property
    def name(self) -> str:
        """Name after `lab:`."""
        ...

    @property
    def folder(self) -> Path:
        """Folder of its shipped files: weights, tokenizer and card."""
        ...

    @property
    def families(self) -> int:
        """Number of families of problems that it was trained on."""
        ...

    def knows(self, question: str) -> bool:
        """Whether a question is a problem of these families, in one of their wordings."""
        ...

    def export(self, folder: Path) -> None:
        """Write its weights in Hugging Face format. Raises ConfigError for a folder with other files."""
        ...


def find_demo(domain: str) -> Demo | None:
    """Return the demo of a domain; None when no installed package has one."""
    plugin = announced(GROUP).usable.get(domain)
    return None if plugin is None or not _installed(plugin) else cast("Demo", load(plugin, "demo"))


def demo_of(domain: str) -> Demo:
    """Return the demo of a domain. Raises ConfigError when no installed package has one."""
    if (demo := find_demo(domain)) is None:
        raise ConfigError(
            f"the domain {domain!r} has no generated tasks here, because the package agentlearn_demo is not installed;"
            " give tasks of your own with --data"
        )
    return demo


def lab_models() -> dict[str, LabModel]:
    """Return all lab models of installed packages, by name. Raises ConfigError for one that cannot be loaded."""
    plugins = announced(GROUP_OF_LABS).usable.values()
    found = [cast("LabModel", load(plugin, "lab model")) for plugin in plugins if _installed(plugin)]
    return {lab.name: lab for lab in sorted(found, key=lambda lab: lab.name)}


def lab_model(name: str) -> LabModel:
    """Return the lab model with this name. Raises ConfigError when no package announces it."""
    labs = lab_models()
    if name not in labs:
        known = ", ".join(f"'lab:{one}'" for one in labs) or "none, because agentlearn_demo is not installed"
        raise ConfigError(f"there is no lab model {name!r} (installed: {known})", code="unknown_model")
    return labs[name]


def _installed(plugin: Plugin) -> bool:
    return find_spec(plugin.entry.module.partition(".")[0]) is not None

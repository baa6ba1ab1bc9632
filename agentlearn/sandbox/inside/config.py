"""The configuration of a zygote, passed on its command line."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class SandboxLimits:
    """Resource limits of one session."""

    timeout_s: float = 10.0
    """Default limit of the wall time of one call."""
    cpu_s: int = 600
    """Limit of the processor time of a whole session."""
    memory_bytes: int = 1 << 30
    """Limit of address space, in addition to what the interpreter with its preloaded modules uses."""
    file_bytes: int = 16 << 20
    """Largest size of a file."""
    scratch_bytes: int = 64 << 20
    """Largest total size of a session's files; applied only with namespaces."""
    open_files: int = 64
    """Largest number of open files."""
    output_chars: int = 8_000
    """Printed text that a result keeps; longer text is shortened in the middle."""


@dataclass(frozen=True)
class Config:
    """Configuration of a zygote."""

    parent: int
    """Process id of the parent; the zygote ends when the parent does."""
    scratch: str
    """An existing directory that nothing else uses; each session gets a directory inside."""
    search_paths: tuple[str, ...]
    """Folders of the preloaded modules, searched after the standard library."""
    modules: tuple[str, ...]
    """Modules that are imported once, before the first fork."""
    sealed: bool
    """Whether the kernel isolates sessions; otherwise they only have resource limits."""
    limits: SandboxLimits

    def to_json(self) -> str:
        """The configuration as one line of JSON."""
        return json.dumps(asdict(self))


def config_from_json(line: str) -> Config:
    """The configuration in a line written by `to_json`."""
    fields = json.loads(line)
    return Config(
        parent=fields["parent"],
        scratch=fields["scratch"],
        search_paths=tuple(fields["search_paths"]),
        modules=tuple(fields["modules"]),
        sealed=fields["sealed"],
        limits=SandboxLimits(**fields["limits"]),
    )

"""What the zygote is told on its command line."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class SandboxLimits:
    """What one session may use."""

    timeout_s: float = 10.0
    """Wall time of one call, when the caller names no other."""
    cpu_s: int = 600
    """Processor time of a whole session."""
    memory_bytes: int = 1 << 30
    """Address space on top of what the warmed interpreter already holds."""
    file_bytes: int = 16 << 20
    """Size of one file."""
    scratch_bytes: int = 64 << 20
    """Size of all files of a session, where namespaces hold."""
    open_files: int = 64
    output_chars: int = 8_000
    """Printed text that a result keeps; the middle of more is cut."""


@dataclass(frozen=True)
class Config:
    """How to start a zygote."""

    parent: int
    """Process id that the zygote must not outlive."""
    scratch: str
    """An existing directory, ours alone; each session gets a directory inside."""
    search_paths: tuple[str, ...]
    """Where the warmed modules are found, after the standard library."""
    modules: tuple[str, ...]
    """Imported once, before the first fork."""
    sealed: bool
    """Whether sessions are confined by the kernel, not only limited."""
    limits: SandboxLimits

    def to_json(self) -> str:
        """One line for the command line."""
        return json.dumps(asdict(self))


def config_from_json(line: str) -> Config:
    """The config that `to_json` wrote."""
    fields = json.loads(line)
    return Config(
        parent=fields["parent"],
        scratch=fields["scratch"],
        search_paths=tuple(fields["search_paths"]),
        modules=tuple(fields["modules"]),
        sealed=fields["sealed"],
        limits=SandboxLimits(**fields["limits"]),
    )

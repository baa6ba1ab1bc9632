"""The configuration of a zygote, passed on its command line."""

import json
from dataclasses import asdict, dataclass

MOST_OUTPUT_CHARS = 1 << 23
"""Most printed text that a result can keep."""


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
    """Largest total size of a session's files. With namespaces the kernel refuses more; otherwise a session that
    exceeds it is killed soon after."""
    open_files: int = 64
    """Largest number of open files."""
    threads: int = 256
    """Largest number of threads; a session that exceeds it is killed soon after."""
    output_chars: int = 8_000
    """Printed text that a result keeps; longer text is shortened in the middle."""

    def __post_init__(self) -> None:
        """Refuse to keep so much text that a session would have no memory for it."""
        if not 0 < self.output_chars <= MOST_OUTPUT_CHARS:
            raise ValueError(f"output_chars is {self.output_chars!r}; give a number from 1 to {MOST_OUTPUT_CHARS:,}")


@dataclass(frozen=True)
class Config:
    """Configuration of a zygote."""

    parent: int
    """Process id of the parent; the zygote ends when the parent does."""
    scratch: str
    """An existing directory that nothing else uses; each session gets a directory inside."""
    packages: tuple[str, ...]
    """Folders and files of the packages that sessions may import besides the standard library."""
    modules: tuple[str, ...]
    """Modules that are imported once, before the first fork."""
    sealed: bool
    """Whether the kernel isolates sessions; otherwise they only have resource limits."""
    limits: SandboxLimits

    @property
    def package_folder(self) -> str:
        """The folder of links to the packages, on the search path of sessions."""
        return f"{self.scratch}/packages"

    def to_json(self) -> str:
        """The configuration as one line of JSON."""
        return json.dumps(asdict(self))


def config_from_json(line: str) -> Config:
    """The configuration in a line written by `to_json`."""
    fields = json.loads(line)
    return Config(
        parent=fields["parent"],
        scratch=fields["scratch"],
        packages=tuple(fields["packages"]),
        modules=tuple(fields["modules"]),
        sealed=fields["sealed"],
        limits=SandboxLimits(**fields["limits"]),
    )

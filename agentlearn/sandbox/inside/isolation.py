"""Set up and test the isolation that this machine supports, and list the files that sessions may read."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentlearn.sandbox.inside import landlock, namespaces, seccomp
from agentlearn.sandbox.inside.attacks import open_walls
from agentlearn.sandbox.inside.config import Config
from agentlearn.sandbox.inside.confine import PreparedSession
from agentlearn.sandbox.inside.landlock import READ, Access, LandlockRule
from agentlearn.sandbox.inside.packages import DATA_FILES

_NULL = Path("/dev/null")
_PACKAGES = ("site-packages", "dist-packages")
_NAMESPACES = ("namespaces",)
SEALED_LAYERS = ("process", "rlimits", "no-new-privileges", "capabilities", "landlock", "seccomp")


@dataclass(frozen=True)
class Isolation:
    """The isolation that works on this machine."""

    layers: tuple[str, ...]
    """Active layers."""
    missing: tuple[str, ...]
    """Layers that are not active."""
    refusal: str = ""
    """Which required layer is missing or broken; empty if sessions may be opened."""
    walls: tuple[LandlockRule, ...] | None = None
    """Which of the interpreter's files sessions may read; None means no isolation."""


UNSEALED = Isolation(("process", "rlimits"), ("landlock", "seccomp", "namespaces"))


def isolate(config: Config) -> Isolation:
    """Set up the zygote's own isolation, and test that of a session by attacks.

    Call it early: namespaces need a process with one thread.
    """
    if not config.sealed:
        return UNSEALED
    scratch = Path(config.scratch, "0")
    scratch.mkdir(0o700)
    own_namespaces = namespaces.allowed(scratch, config.limits)
    if own_namespaces:
        namespaces.enter()
    walls = _standard_library()
    refusal = (
        seccomp.why_no_seccomp()
        or landlock.why_no_landlock()
        or _self_test(config, PreparedSession(-1, -1, scratch, os.getpid(), 0, walls))
    )
    held, not_held = (_NAMESPACES, ()) if own_namespaces else ((), _NAMESPACES)
    return Isolation((*SEALED_LAYERS, *held), not_held, refusal, walls)


def _standard_library() -> tuple[LandlockRule, ...]:
    """Rules for reading the standard library, without installed packages."""
    named = {Path(folder) for folder in sys.path if Path(folder).is_dir()}
    folders = [folder for folder in sorted(named) if named.isdisjoint(folder.parents)]
    inside = [entry for folder in folders for entry in folder.iterdir() if entry.name not in _PACKAGES]
    data = [Path(path) for path in DATA_FILES]
    return (
        *_rules(folders, Access.READ_DIR),
        *_rules([*inside, *data], READ),
        *_rules([_NULL], READ | Access.WRITE_FILE),
    )


def preloaded_packages(config: Config) -> tuple[LandlockRule, ...]:
    """Rules for reading the packages of the sandbox and for listing the folder of links to them.

    Other installed packages stay unreadable: a domain's package may contain the answers to its tasks.
    """
    return (*_rules(map(Path, config.packages), READ), *_rules([Path(config.package_folder)], Access.READ_DIR))


def _rules(paths: Iterable[Path], access: Access) -> tuple[LandlockRule, ...]:
    return tuple(rule for path in paths if (rule := landlock.rule(path, access)) is not None)


def _self_test(config: Config, prepared: PreparedSession) -> str:
    """Attack a session's isolation. Returns a sentence about what failed; empty if every attack was stopped."""
    secret = Path(config.scratch, "secret")
    secret.write_bytes(b"")
    try:
        try:
            broken = open_walls(prepared, config.limits, secret)
        except OSError:  # the attacking process may have been killed from outside
            broken = open_walls(prepared, config.limits, secret)
    except OSError as error:
        return f"its isolation could not be set up ({error})"
    finally:
        secret.unlink()
    through = ", ".join(f"{attack!r} (against {layer})" for attack, layer in broken.items())
    return f"attacks of its self-test succeeded: {through}" if through else ""

"""Which walls stand on this machine, and what sessions may read behind them."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentlearn.sandbox.inside import landlock, namespaces, seccomp
from agentlearn.sandbox.inside.attacks import broken_walls
from agentlearn.sandbox.inside.config import Config
from agentlearn.sandbox.inside.confine import PreparedSession
from agentlearn.sandbox.inside.landlock import READ, Access, LandlockRule

_NULL = Path("/dev/null")
_PACKAGES = ("site-packages", "dist-packages")
_NAMESPACES = ("namespaces",)
SEALED_LAYERS = ("process", "rlimits", "no-new-privileges", "capabilities", "landlock", "seccomp")


@dataclass(frozen=True)
class Isolation:
    """What holds here."""

    layers: tuple[str, ...]
    missing: tuple[str, ...]
    refusal: str = ""
    """What is missing that must not be; empty when sessions may be opened."""
    walls: tuple[LandlockRule, ...] | None = None
    """What sessions may read of the interpreter's own files; None confines nothing."""


UNSEALED = Isolation(("process", "rlimits"), ("landlock", "seccomp", "namespaces"))


def isolate(config: Config) -> Isolation:
    """Put up what belongs to the zygote itself, and try by attack whether a session's walls hold.

    To be called early: namespaces need a process with one thread.
    """
    if not config.sealed:
        return UNSEALED
    scratch = Path(config.scratch, "0")
    scratch.mkdir(0o700)
    own_namespaces = namespaces.allowed(scratch, config.limits)
    if own_namespaces:
        namespaces.enter()
    walls = standard_library()
    refusal = (
        seccomp.missing()
        or landlock.missing()
        or _tried(config, PreparedSession(-1, -1, scratch, os.getpid(), 0, walls))
    )
    held, not_held = (_NAMESPACES, ()) if own_namespaces else ((), _NAMESPACES)
    return Isolation((*SEALED_LAYERS, *held), not_held, refusal, walls)


def standard_library() -> tuple[LandlockRule, ...]:
    """Rules for what an interpreter needs to read, without the packages installed beside it."""
    named = {Path(folder) for folder in sys.path if Path(folder).is_dir()}
    folders = [folder for folder in sorted(named) if named.isdisjoint(folder.parents)]
    inside = [entry for folder in folders for entry in folder.iterdir() if entry.name not in _PACKAGES]
    return (*_rules(folders, Access.READ_DIR), *_rules(inside, READ), *_rules([_NULL], READ | Access.WRITE_FILE))


def warmed_packages(config: Config) -> tuple[LandlockRule, ...]:
    """Rules for reading the packages that warming up has imported, and the libraries that wheels put beside them.

    Other installed packages stay unreadable: a domain's package may hold the answers to its own tasks.
    """
    tops: set[Path] = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        for folder in config.search_paths:
            if file and Path(file).is_relative_to(folder):
                top = Path(folder, Path(file).relative_to(folder).parts[0])
                tops |= {top, top.with_name(f"{top.name}.libs")}
    return _rules(sorted(tops), READ)


def _rules(paths: Iterable[Path], access: Access) -> tuple[LandlockRule, ...]:
    return tuple(rule for path in paths if (rule := landlock.rule(path, access)) is not None)


def _tried(config: Config, place: PreparedSession) -> str:
    """What came of attacking a session's walls: empty when they hold."""
    secret = Path(config.scratch, "secret")
    secret.write_bytes(b"")
    try:
        broken = broken_walls(place, config.limits, secret)
    except OSError as error:
        return f"its walls could not be put up ({error})"
    finally:
        secret.unlink()
    through = ", ".join(f"{attack!r} (against {layer})" for attack, layer in broken.items())
    return f"attacks of its self-test got through: {through}" if through else ""

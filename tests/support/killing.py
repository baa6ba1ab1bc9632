"""Kill child processes of a command while it runs."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> Iterator[tuple[int, int, str]]:
    """Process id, parent and command line of the processes below one."""
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, listing.read_text().split()):
                with suppress(OSError):
                    line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                    yield child, pid, line
                    yield from descendants(child)


def kinds(pid: int) -> dict[str, list[int]]:
    """The helper processes of a run: `zygote` and its `session`s, `verifier` and its `worker`s, and `service`."""
    found: dict[str, list[int]] = {}
    names = {"inside/boot.py": ("zygote", "session"), "answers.verifier": ("verifier", "worker")}
    for child, parent, line in descendants(pid):
        for text, (top, below) in names.items():
            if text in line:
                found.setdefault(top if parent == pid else below, []).append(child)
        if "-m agentlearn_demo" in line:
            found.setdefault("service", []).append(child)
    return found

"""Stores as crashes and bad disks leave them."""

import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

_DIES = """
import asyncio, os, sys
from pathlib import Path
from agentlearn.store import open_store
from tests.unit.store import nouns

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        await store.save_run(nouns.run_event())
        await store.save_tasks([nouns.TASK])
        for g in range(2):
            await store.save_trajectory(nouns.trajectory(g), b"[]")
            store.runs()  # a question takes what waits into the database
        for n in range(4):
            await store.record(nouns.call(n))
        os._exit(0)

asyncio.run(main())
"""


def left_by_a_crash(directory: Path) -> None:
    """A store whose process died: four commits stand in the log alone, four calls in the journal's file alone."""
    subprocess.run([sys.executable, "-c", _DIES, str(directory)], check=True, timeout=480, cwd=ROOT)


def flip(file: Path, at: int) -> None:
    """Flip one bit of the byte at that place; negative places count from the end."""
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


_KEEPS_WRITING = """
import asyncio, os, shutil, sys
from pathlib import Path
from agentlearn.store import open_store
from tests.unit.store import nouns

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        await store.save_run(nouns.run_event())
        await store.save_tasks([nouns.TASK])
        for g in range(80):
            await store.save_trajectory(nouns.trajectory(g), b"[]" * 400)
            if g in (40, 60, 70):
                store.runs()
            if g == 60:
                await store.checkpoint()
            if g in (30, 50, 65):
                ignored = shutil.ignore_patterns("store.sock", "before")
                shutil.copytree(sys.argv[1], f"{sys.argv[1]}/before/{g}", ignore=ignored)
        for n in range(20):
            await store.record(nouns.call(n))
        os._exit(0)

asyncio.run(main())
"""
ROLLOUTS, CALLS = 80, 20


def left_by_a_longer_run(directory: Path) -> None:
    """A store whose process died: rows in the database file, its log and the journal. `before` has older copies."""
    subprocess.run([sys.executable, "-c", _KEEPS_WRITING, str(directory)], check=True, timeout=480, cwd=ROOT)


def damaged(content: bytes, kind: str, chance: random.Random) -> bytes:
    """The content with damage of one kind at a random place."""
    at, end = chance.randrange(len(content)), len(content)
    if kind == "truncated":
        return content[:at]
    if chance.random() < 0.5:  # where the headers are
        at = chance.randrange(min(end, 4_096))
    size = 1 if kind == "flipped" else min(chance.randrange(1, 6_000), end - at)
    old = content[at : at + size]
    new = {
        "flipped": bytes([old[0] ^ 1 << chance.randrange(8)]),
        "zeroed": bytes(size),
        "scribbled": chance.randbytes(size),
    }[kind]
    return content[:at] + new + content[at + size :]

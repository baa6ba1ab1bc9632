"""Stores as crashes and bad disks leave them."""

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

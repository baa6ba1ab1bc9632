"""Nothing outlives a sandbox: no process, no file, whatever ends first."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from agentlearn.errors import ConfigError
from agentlearn.sandbox import CodeSandbox, Session, open_sandbox

REPOSITORY = Path(__file__).parents[3]
each_sandbox = pytest.mark.parametrize("name", ["unsafe-local", "zygote"])
FACTS = "import os\n(os.getpid(), os.getppid(), os.getcwd())"


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone_soon(*pids: int, within_s: float = 60.0) -> bool:
    deadline = time.monotonic() + within_s
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(alive(pid) for pid in pids)


async def facts(session: Session) -> tuple[int, int, str]:
    """Process id of a session, of its zygote, and the session's directory."""
    return eval((await session.run(FACTS)).stdout)


@each_sandbox
def test_leaving_a_session_ends_its_process_and_leaving_the_sandbox_all_else(name: str) -> None:
    async def scenario() -> None:
        async with open_sandbox(name) as sandbox:
            async with sandbox.open(1) as session:
                await session.run("open('a', 'w').write('b')")
                pid, parent, directory = await facts(session)
                assert alive(pid)
            assert not alive(pid)
            assert alive(parent)
        assert not alive(parent)
        assert not Path(directory).parent.exists()

    asyncio.run(scenario())


PARENT = f"""
import asyncio, sys
from agentlearn.sandbox import open_sandbox
async def main():
    async with open_sandbox(sys.argv[1]) as sandbox, sandbox.open(1) as idle, sandbox.open(2) as busy:
        for session in (idle, busy):
            print((await session.run({FACTS!r})).stdout.strip(), flush=True)
        await busy.run("while True: pass", timeout_s=60)
asyncio.run(main())
"""


@each_sandbox
def test_when_our_process_is_killed_nothing_is_left(name: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, name], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        idle, zygote_pid, directory = eval(parent.stdout.readline())
        busy, _, _ = eval(parent.stdout.readline())
        assert alive(idle)
        assert alive(busy)
        parent.kill()
    assert gone_soon(idle, busy, zygote_pid)
    assert not Path(directory).parent.exists()


def test_many_sessions_one_after_the_other_leave_no_descriptor_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def many(sandbox: CodeSandbox, sessions: int) -> None:
        for seed in range(sessions):
            async with sandbox.open(seed) as session:
                assert (await session.run(f"{seed}")).stdout == f"{seed}\n"

    def kept() -> tuple[int, int]:
        """Our open descriptors, and the files and directories that a sandbox keeps."""
        # Not with rglob, which raises when a directory goes while it is read.
        kept_in = os.walk(tmp_path)
        descriptors = list(Path("/proc/self/fd").iterdir())
        return len(descriptors), sum(len(folders) + len(files) for _, folders, files in kept_in)

    async def scenario() -> None:
        async with open_sandbox("zygote") as sandbox:
            await many(sandbox, 20)
            fds, files = kept()
            await many(sandbox, 100)
            fds_after, files_after = kept()
            assert fds_after <= fds
            assert files_after <= files + 1  # the directory of the last session may just be going
        assert not list(tmp_path.rglob("*"))

    asyncio.run(scenario())


def test_what_unconfined_code_starts_ends_with_its_session() -> None:
    async def scenario() -> None:
        async with open_sandbox("unsafe-local") as sandbox, sandbox.open(1) as session:
            cell = "import subprocess as s\n[s.Popen(['sleep', '60'], start_new_session=n).pid for n in (False, True)]"
            pids = eval((await session.run(cell)).stdout)
            assert all(alive(pid) for pid in pids)
            assert (await session.run("while True: pass", timeout_s=0.1)).status == "timeout"
            assert await asyncio.to_thread(gone_soon, *pids)

    asyncio.run(scenario())


def test_the_environment_does_not_reach_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "hunter2")

    async def scenario() -> None:
        async with open_sandbox("unsafe-local") as sandbox, sandbox.open(1) as session:
            assert (await session.run("b'hunter2' in open('/proc/self/environ', 'rb').read()")).stdout == "False\n"
            assert (await session.run("import os\nsorted(os.environ)")).stdout == (
                "['LC_CTYPE', 'OPENBLAS_NUM_THREADS', 'PYTHONHASHSEED']\n"
            )

    asyncio.run(scenario())


def test_a_sandbox_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(ConfigError) as caught:
        asyncio.run(open_sandbox("docker").__aenter__())
    assert caught.value.message == "there is no sandbox 'docker' (known: 'zygote', 'unsafe-local')"

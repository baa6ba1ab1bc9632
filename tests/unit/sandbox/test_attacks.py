"""Code that a stranger wrote, behind the walls of the sandbox `zygote`: as this user, and as an ordinary one."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlearn.sandbox.zygote import INSTEAD
from tests.unit.sandbox.attacks import all_attacks, attack_all
from tests.unit.sandbox.conftest import Box, started

REPOSITORY = Path(__file__).parents[3]
NOBODY = 65534
x86_64_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code for x86-64")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Box]:
    yield from started("zygote")


def test_every_attack_is_stopped(zygote: Box) -> None:
    assert zygote.runner.run(attack_all()) == {}
    assert len(all_attacks()) > 60


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the attacks above already ran as an ordinary user")
def test_every_attack_by_an_ordinary_user_is_stopped() -> None:
    python = _python_of_an_ordinary_user()
    found = subprocess.run(
        [python, "-m", "tests.unit.sandbox.attacks"],
        user=NOBODY,
        group=NOBODY,
        extra_groups=(),
        cwd=REPOSITORY,
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HOME": "/"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {}


def _python_of_an_ordinary_user() -> str:
    """An interpreter of this version that another user may run and that finds our packages; else skips."""
    probe = "import pydantic_core, numpy, sympy"
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(name, path="/usr/bin:/usr/local/bin")):
        if python is None:
            continue
        try:
            subprocess.run([python, "-c", probe], user=NOBODY, group=NOBODY, env=paths, cwd=REPOSITORY, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip("no interpreter that an ordinary user may run")


@x86_64_only
def test_another_numbering_of_system_calls_ends_the_interpreter(zygote: Box) -> None:
    """x32 calls, and 32-bit calls by `int 0x80`, would slip past a filter that only looks at numbers."""
    x32 = "import ctypes\nctypes.CDLL(None).syscall(0x40000000 | 39)"
    old = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
"""
    for cell in (x32, old):
        result = zygote.last(cell)
        assert result.status == "killed"
        assert result.error.startswith("the interpreter died (SIGSYS)")


def test_a_session_can_neither_find_nor_read_another(zygote: Box) -> None:
    async def scenario() -> None:
        async with zygote.sandbox.open(1) as victim, zygote.sandbox.open(1) as attacker:
            await victim.run("open('secret', 'w').write('secret')")
            where = (await victim.run("import os\n(os.getcwd(), os.getpid())")).stdout
            directory, pid = eval(where)
            for cell in (
                f"open({directory + '/secret'!r}).read()",
                f"open({directory + '/new'!r}, 'w')",
                f"open('/proc/{pid}/mem', 'rb')",
                f"import os\nos.kill({pid}, 9)",
            ):
                assert "PermissionError" in (await attacker.run(cell)).error
            assert (await victim.run("open('secret').read()")).stdout == "'secret'\n"

    zygote.runner.run(scenario())


def test_nothing_is_inherited_but_the_socket_and_the_output(zygote: Box) -> None:
    cell = """
import os
def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
[fd for fd in range(1 << 16) if is_open(fd)]
"""
    assert zygote.last(cell).stdout in ("[0, 1, 2, 3]\n", "[1, 2, 3]\n")


def test_what_one_session_spoils_is_spoilt_for_nobody_else(zygote: Box) -> None:
    """Hooks on imports, changed builtins and modules: they stay in the session, and our side hears only data."""
    spoil = """
import builtins, json, sys, types
class Hook:
    def find_spec(self, name, path=None, target=None):
        raise SystemError('hooked ' + name)
sys.meta_path.insert(0, Hook())
sys.path.insert(0, '/breach')
builtins.len = lambda _: 0
json.loads = json.dumps = lambda *a, **k: '[]'
sys.modules['math'] = types.ModuleType('math')
for frame in iter([sys._getframe()]):
    while frame.f_back:
        frame = frame.f_back
        frame.f_globals.clear()
"""

    async def scenario() -> None:
        async with zygote.sandbox.open(1) as victim:
            async with zygote.sandbox.open(1) as attacker:
                await attacker.run(spoil)
                assert (await attacker.run("1 + 1")).status in ("ok", "error", "killed", "state_lost")
            check = "import math, json, statistics, fractions\n(len('abc'), math.sqrt(4), json.loads('[1]'))"
            assert (await victim.run(check)).stdout == "(3, 2.0, [1])\n"
            async with zygote.sandbox.open(1) as later:
                assert (await later.run(check)).stdout == "(3, 2.0, [1])\n"

    zygote.runner.run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        "import pickle; body = pickle.dumps(print)",
        "class E:\n    def __reduce__(self): return print, ('BREACH',)\nimport pickle; body = pickle.dumps(E())",
        'body = b\'{"call": 1, "status": "ok", "stdout": "", "stdout_bytes": -1, "error": ""}\'',
        'body = b\'{"call": 1, "status": "correct", "stdout": "", "stdout_bytes": 0, "error": ""}\'',
        'body = b\'{"call": 1, "status": "ok", "stdout_bytes": 0, "error": "", "stdout": "%s"}\' % (b"a" * 99_999)',
        "body = b'[' * 500_000",
        "body = b'{\"call\": ' + b'9' * 500_000 + b'}'",
    ],
)
def test_a_reply_that_is_no_reply_is_not_believed(zygote: Box, body: str, capfd: pytest.CaptureFixture[str]) -> None:
    send = "import os\nframe = len(body).to_bytes(4, 'big') + body\nwhile frame: frame = frame[os.write(3, frame):]"
    first, second = zygote.run(f"{body}\n{send}", "1 + 1")
    assert first.status == "killed"
    assert second.stdout == "2\n"
    assert capfd.readouterr() == ("", "")


def test_a_flood_of_replies_fills_no_memory_of_ours(zygote: Box) -> None:
    """Unrequested replies wait in the socket, and only the first frame is read."""
    flood = "import os\nframe = (1 << 19).to_bytes(4, 'big') + b'a' * (1 << 19)\nwhile True: os.write(3, frame)"
    first, second = zygote.run(flood, "1 + 1")
    assert first.status == "killed"
    assert second.stdout == "2\n"


def test_no_capability_is_left(zygote: Box) -> None:
    cell = """
import ctypes, struct
header, sets = struct.pack('Ii', 0x20080522, 0), ctypes.create_string_buffer(24)
ctypes.CDLL(None).capget(header, sets)
sets.raw
"""
    assert zygote.last(cell).stdout == f"{bytes(24)!r}\n"


def _without(sandbox: str, errno: int, *numbers: int) -> dict[str, object]:
    """The result of opening a sandbox in a process whose kernel lacks some system calls."""
    command = [sys.executable, "-m", "tests.unit.sandbox.deny", sandbox, str(errno), *map(str, numbers)]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=True)
    return json.loads(ran.stdout)


@x86_64_only
@pytest.mark.parametrize(
    ("number", "feature"),
    [
        (
            444,
            "the kernel has no Landlock (Linux 5.13 or later, with `landlock` among its `lsm=` modules), or forbids it",
        ),
        (317, "the kernel has no system-call filters (seccomp), or forbids them"),
        (445, "its isolation could not be set up (OSError: [Errno 38] landlock rule: Function not implemented)"),
    ],
)
def test_where_a_wall_cannot_stand_the_sandbox_refuses(number: int, feature: str) -> None:
    assert _without("zygote", 38, number) == {
        "type": "ConfigError",
        "code": "bad_config",
        "message": f"the code sandbox 'zygote' cannot isolate code here: {feature}; {INSTEAD}",
    }


@x86_64_only
def test_where_only_namespaces_are_missing_the_sandbox_holds_and_says_so() -> None:
    outcome = _without("zygote", 1, 272)
    report = outcome["report"]
    assert isinstance(report, dict)
    assert report["missing"] == ["namespaces"]
    assert "namespaces" not in report["layers"]
    assert re.search("PermissionError", str(outcome["result"]))

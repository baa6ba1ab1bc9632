"""Installs: size, packages and CPU time of each, and what it costs to import what uses lessons.

Builds the wheel and installs it in empty environments, without extras and with `learn`, from the package index and
without a cache of downloads. It needs the network.

    just bench install --extras learn,hub
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripts.bench.found import Found, Row, Target

ROOT = Path(__file__).parents[2]
LIGHT = "no extra"
USE = "from agentlearn import Experiences"
IMPORTS = """
import resource, sys
before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
exec(sys.argv[1])
after = resource.getrusage(resource.RUSAGE_SELF)
print(after.ru_utime - before, after.ru_maxrss / 1024)
"""
"""Prints CPU seconds of a statement and the peak memory of the process in MiB."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--extras", default="learn", help="extras to install, separated by commas; each is one install")


def measure(chosen: argparse.Namespace) -> Found:
    """Install and measure in CPU seconds, MiB and packages."""
    with tempfile.TemporaryDirectory() as work:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", f"{work}/dist", str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        (wheel,) = Path(work, "dist").glob("*.whl")
        wanted = {LIGHT: str(wheel)} | {one: f"{wheel}[{one}]" for one in chosen.extras.split(",") if one}
        rows = tuple(_installed(Path(work, f"venv-{n}"), *named) for n, named in enumerate(wanted.items()))
    light = rows[0].figures
    targets = (
        Target(what="installed without extras, MiB", figure=float(light["size_mib"] or 0), bound="at_most", limit=70),
        Target(what="CPU of that install, s", figure=float(light["install_cpu_s"] or 0), bound="at_most", limit=10),
    )
    return Found(rows=rows, targets=targets)


def _installed(venv: Path, name: str, requirement: str) -> Row:
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python, size_before, packages_before = str(venv / "bin" / "python"), _size(venv), len(_packages(venv))
    pip = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", requirement]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(pip, check=True, capture_output=True)
    after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    imports = [subprocess.run([python, "-c", IMPORTS, USE], check=True, capture_output=True, text=True, cwd=venv)]
    imports += [subprocess.run(imports[0].args, check=True, capture_output=True, text=True, cwd=venv) for _ in range(4)]
    seconds, peaks = zip(*(map(float, one.stdout.split()) for one in imports), strict=True)
    figures = {
        "size_mib": _size(venv) - size_before,
        "packages": len(_packages(venv)) - packages_before,
        "install_cpu_s": cpu_s,
        "install_wall_s": wall_s,
        "import_cpu_s": sorted(seconds)[2],
        "import_peak_mib": sorted(peaks)[2],
    }
    shutil.rmtree(venv)
    return Row(name=name, figures=figures)


def _packages(venv: Path) -> list[Path]:
    return list(venv.glob("lib/python*/site-packages/*.dist-info"))


def _size(venv: Path) -> float:
    """Return what a folder takes on the disk in MiB."""
    files = (Path(root, name).lstat() for root, _, names in os.walk(venv) for name in names)
    return sum(one.st_blocks * 512 for one in files) / 2**20

"""The history of a library with many versions: CPU of a load, a publication, the log and blame; memory; bytes on disk.

A library of 100 lessons gets one lesson in the place of another in each version. Every figure is the median of three
processes. The last row divides the figures of the last number of versions by those of the first.

    just bench library --versions 1000 10000
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.bench.found import Found, Row

_LESSONS = 100
_FILL = f"""
import sys
from pathlib import Path
from agentlearn.library import LibraryStore
from agentlearn.types.experience import Experience, Library, Origin, experience_id, library_of
history, versions = LibraryStore(Path(sys.argv[1])).history("many"), int(sys.argv[2])
library = library_of(f"When the total of {{n}} items is asked for, count each once." for n in range({_LESSONS}))
history.publish(library, who="")
for number in range(1, versions):
    lessons, place = list(library.experiences), number % {_LESSONS}
    lessons[place] = Experience(
        id=experience_id(library.version, ["modify", number], 0),
        lesson=f"When there are {{number}} cases, count each one time, and leave none out at the end.",
        origin=Origin(kind="modify", parents=(lessons[place].id,), library=library.version),
    )
    library = Library(parent=library.version, experiences=tuple(lessons))
    history.publish(library, kind="learn", base=library.parent, run=f"run-{{number}}", who="")
"""
_ASK = r"""
import json, re, sys, time
from pathlib import Path
from agentlearn.library import LibraryStore
from agentlearn.library.history import History
from agentlearn.types.experience import Library
store = LibraryStore(Path(sys.argv[1]))
library = store.load("many")  # also imports what is needed
asked = {
    "load": lambda: store.load("many"),
    "publish": lambda: store.publish("many", Library(parent=library.version, experiences=library.experiences[1:])),
    "log": lambda: store.log("many"),
    "blame": lambda: store.history("many").blame(library.experiences[-1].id),
}
began = time.process_time()
asked[sys.argv[2]]()
took_s = time.process_time() - began
peak_kib = int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([took_s, peak_kib / 1024]))
"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--versions", type=int, nargs="+", default=[250, 500], help="numbers of versions")
    parser.add_argument("--folder", type=Path, help="where the libraries are made; a folder in memory is quicker")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure in CPU milliseconds, MiB and bytes a version."""
    rows = [Row(name=f"{one:,} versions", figures=_measured(one, chosen.folder)) for one in chosen.versions]
    first, last = rows[0].figures, rows[-1].figures
    ratios = {name: float(last[name] or 0) / float(figure or 1) for name, figure in first.items()}
    note = "Times are CPU ms of one request in a new process, without its imports."
    return Found(rows=(*rows, Row(name="last / first", figures=ratios)), notes=(note,))


def _measured(versions: int, folder: Path | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=folder) as work:
        subprocess.run([sys.executable, "-c", _FILL, f"{work}/libraries", str(versions)], check=True)
        size = sum(one.stat().st_size for one in Path(work).rglob("*") if one.is_file())
        figures: dict[str, float] = {"bytes_a_version": size / versions}
        for name in ("load", "publish", "log", "blame"):
            command = [sys.executable, "-c", _ASK, f"{work}/libraries", name]
            said = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3)]
            answers = sorted(json.loads(one) for one in said)
            figures |= {f"{name}_cpu_ms": 1000 * answers[1][0], f"{name}_peak_mib": answers[1][1]}
        return figures

"""What an erasure removes, as an intent in the store's folder; and its last steps, which only move and remove files.

They may be done twice, and `Database` does them whenever a store is opened. So a crash leaves a store as it was before
the intent, or the next opening finishes.
"""

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store.codec import error_line
from agentlearn.store.journal_file import JournalFile
from agentlearn.store.store_files import WATERMARK, Watermark
from agentlearn.text.files import own, own_folder, sync, write_whole
from agentlearn.text.log import get_log
from agentlearn.types.ids import ExperienceId, RolloutId, RunId, TaskId
from agentlearn.types.value import Value

INTENT = "store.erasure"
COPY = "store.duckdb.erased"
"""The database without what is erased, which takes the place of the other one."""
RECEIPTS = "receipts"
ERASED_LESSONS = "libraries/erased"
"""File with the ids of the lessons that rest on erased records. `agentlearn.library.shown` reads it."""
_DATABASE, _DATABASE_LOG = "store.duckdb", "store.duckdb.wal"

LessonChoice = Literal["list", "park", "keep"]
"""What happens to lessons that rest on what is erased: nothing yet; they are shown to no agent, and those that no
library holds are erased; or they are kept as they are."""


class Erased(Value):
    """What an erasure asks for; one of these is given."""

    rollout: str = ""
    """Id of a rollout, or its start."""
    episode: str = ""
    user: str = ""
    before: datetime | None = None
    """Recorded and imported rollouts that began before this time."""


class RestingLesson(Value):
    """A lesson that was learned from what is erased, or made from such a lesson."""

    id: ExperienceId
    versions: tuple[str, ...] = ()
    """The versions of libraries that hold it, as NAME@VERSION; empty for a lesson that was never published."""
    shown: tuple[str, ...] = ()
    """The libraries and branches that show it now."""


class ErasureReceipt(Value):
    """What an erasure removed, and where it cannot reach. It holds ids and numbers, and none of what was removed."""

    store: str
    at: datetime
    by: str
    """What was named: `rollout`, `episode`, `user` or `before`; `archive` for what was moved to an archive."""
    removed: dict[str, int]
    """Number of rows by table. Those of `journal` are replies of models and results of tools."""
    rollouts: tuple[RolloutId, ...]
    tasks: tuple[TaskId, ...]
    feedback: tuple[str, ...]
    runs: tuple[RunId, ...]
    """Runs that read or made one of these rollouts: their pages, and the replies of their stages, are removed."""
    journal: int = 0
    """Entries up to this number were taken out of the journal."""
    files: tuple[str, ...] = ()
    """Files and folders that are removed. Those in the store have no path before them."""
    lessons: tuple[RestingLesson, ...] = ()
    choice: LessonChoice = "list"
    ended: tuple[str, ...] = ()
    """What parking the lessons ends or changes, one sentence each."""
    unreached: tuple[str, ...] = ()
    """Where copies can be that an erasure does not reach, one sentence each."""
    archive: str = ""
    """Folder of the archive that holds what was removed; empty for an erasure."""
    file: str = ""
    """Where the receipt is kept; empty for a trial."""

    @property
    def words(self) -> str:
        """What was named, as the end of a phrase."""
        return "from before this time" if self.by == "before" else f"of this {self.by}"


def receipts_of(directory: Path) -> tuple[ErasureReceipt, ...]:
    """The receipts that a store keeps, the oldest first. Raises StoreDamaged for one that cannot be read."""
    found = list[ErasureReceipt]()
    for file in (directory / RECEIPTS).glob("*.json"):
        try:
            found.append(ErasureReceipt.model_validate_json(own(file, directory).read_bytes()))
        except (ValueError, OSError) as error:
            raise StoreDamaged(
                f"the receipt {str(file)!r} cannot be read ({error_line(error)}); restore it from a backup: it says"
                " what was erased and must not come back"
            ) from error
    return tuple(sorted(found, key=lambda one: one.at))


def note_erased(directory: Path, receipts: Iterable[ErasureReceipt]) -> None:
    """Add the lessons that erasures park to the file by which the libraries of a store show them no more."""
    file = directory / ERASED_LESSONS
    known = set(own(file, directory).read_text(encoding="ascii").split()) if file.exists() else set[str]()
    parked = {one.id for receipt in receipts if receipt.choice == "park" for one in receipt.lessons}
    if parked - known:
        text = "".join(f"{one}\n" for one in sorted(parked | known))
        write_whole(own_folder(file.parent, directory) / file.name, text.encode(), private=True)


def finish_erasure(directory: Path) -> None:
    """Finish the erasure that an intent asks for. The caller holds the store's lock and has no file of it open.

    Only files in the store are removed: somebody else may have put the intent there. Raises StoreError, OSError when
    the database file cannot be replaced. What fails later is tried again with the next opening.
    """
    intent, copy, path = directory / INTENT, directory / COPY, directory / _DATABASE
    try:
        receipt = ErasureReceipt.model_validate_json(own(intent, directory).read_bytes())
    except FileNotFoundError:
        copy.unlink(missing_ok=True)
        return
    except ValueError as error:
        raise StoreDamaged(
            f"{str(intent)!r} cannot be read; copy the store's directory, then remove this file and {COPY!r} and erase"
            " again"
        ) from error
    with closing(Watermark(directory / WATERMARK)) as mark:
        with mark.locked():
            mark.lift(size_bytes=0, sync=True)  # the new file may be smaller
        if copy.exists():
            (directory / _DATABASE_LOG).unlink(missing_ok=True)  # it was empty
            copy.replace(path)
            sync(directory)
        with mark.locked():
            mark.lift(size_bytes=path.stat().st_size, sync=True)
    try:
        note_erased(directory, [receipt])
        with closing(JournalFile(directory)) as journal:
            journal.purge(receipt.journal)
        inside = (Path(one) for one in receipt.files if not Path(one).is_absolute() and ".." not in Path(one).parts)
        for file in (own(directory / one, directory) for one in inside):
            with suppress(FileNotFoundError):
                shutil.rmtree(file) if file.is_dir() else file.unlink()
        kept = own_folder(directory / RECEIPTS, directory) / Path(receipt.file).name
        write_whole(kept, receipt.model_dump_json(indent=1).encode(), private=True)
    except (StoreError, OSError, sqlite3.Error) as error:
        get_log().warning("erasure.unfinished", directory=str(directory), reason=error_line(error))
        return
    intent.unlink()
    sync(directory)

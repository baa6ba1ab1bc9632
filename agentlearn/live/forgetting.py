"""`forget`: erase a conversation, a user's records, or all that is older than a date, with what was made of them."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from agentlearn.config.defaults import default_store
from agentlearn.config.outputs import Outputs
from agentlearn.errors import ConfigError, LibraryError, StoreError, StoreLocked, StoreMissing
from agentlearn.learning.lessons.trust import brings_more, pending_versions
from agentlearn.learning.live_groups import KEPT_FILE
from agentlearn.library import LibraryStore
from agentlearn.library.history.three_way import HeldLesson
from agentlearn.library.retrieval import EMBEDDINGS_FILE
from agentlearn.library.shown import RESTS_ON_ERASED, NotShown
from agentlearn.store.database import Database
from agentlearn.store.erasure import Erasure, copied_store
from agentlearn.store.erasure_intent import (
    INTENT,
    RECEIPTS,
    Erased,
    ErasureReceipt,
    LessonChoice,
    RestingLesson,
    receipts_of,
)
from agentlearn.store.group_commit import GroupCommit
from agentlearn.store.parquet import SNAPSHOTS
from agentlearn.store.reader import LocalSource, StoreReader
from agentlearn.types.experience import counted_lessons
from agentlearn.types.ids import ExperienceId

Decide = Callable[[ErasureReceipt, Sequence[HeldLesson]], LessonChoice | None]
"""Gets what would be erased and the lessons that rest on it; returns what becomes of them, or None to erase nothing."""

_UNREACHED = (
    "copies of the store's folder, backups, and snapshots of the disk or the file system",
    "blocks of the disk that were freed, until they are written again",
    "the services that ran the models: ask them to delete their records",
    "files that you gave: data files, logs, and sessions of coding agents, which `learn sessions` would read again",
    "files written before for other programs and moved since, recordings of browsers, and traces sent to a collector",
    "files beside imported skills, which are in the folder `files` of their library, and which no run reads",
    "exports of libraries, signed packages and copies on other machines; imported here, these lessons stay parked",
    "programs that run now with lessons in their memory, and do not follow the library",
    "weights that a model was trained to with these rollouts",
)


def forget(
    store: Path | str | None = None,
    *,
    rollout: str = "",
    episode: str = "",
    user: str = "",
    before: datetime | None = None,
    lessons: LessonChoice | Decide = "list",
    dry_run: bool = False,
) -> ErasureReceipt:
    """Erase records with all that was made of them, and return what was removed and where an erasure cannot reach.

    store: directory of the store; default: AGENTLEARN_STORE, else `.agentlearn`.
    rollout: the id of one rollout, or its start. episode, user: what `Recorder.record` was given; for a user, also the
        feedback that they gave. before: recorded and imported rollouts that began earlier. Give one of these.
    lessons: what becomes of lessons that rest on it, or a function that decides when it has seen them.
    dry_run: remove nothing, and change no file.

    Blocks, and needs room for a second copy of the database. Raises ConfigError when nothing matches; StoreLocked when
    another process has the store open; StoreError.
    """
    directory = (Path(store) if store is not None else default_store()).absolute()
    given = [
        name for name, one in (("rollout", rollout), ("episode", episode), ("user", user), ("before", before)) if one
    ]
    if len(given) != 1:
        raise ConfigError(
            "an erasure needs one of --rollout, --episode, --user and --before, such as --user ana, and was given"
            f" {', '.join(f'--{one}' for one in given) or 'none'}"
        )
    if before is not None and before.tzinfo is None:
        raise ConfigError(f"before is {before.isoformat()!r} without a time zone; use datetime(..., tzinfo=UTC)")
    asked = Erased(rollout=rollout, episode=episode, user=user, before=before)
    libraries = LibraryStore(directory / "libraries")
    if dry_run:
        if not directory.is_dir():
            raise StoreMissing(f"there is no store at {str(directory)!r}; pass another --store DIR")
        with copied_store(directory) as copy, closing(Database(copy, create=False)) as database:
            receipt, held = _found(database, asked, directory, libraries)[1:]
            if not isinstance(lessons, str):
                lessons(receipt, held)
            return receipt
    with closing(Database(directory, create=False)) as database:
        erasure, receipt, held = _found(database, asked, directory, libraries)
        with closing(erasure):
            choice = lessons if isinstance(lessons, str) else lessons(receipt, held)
            if choice is None:
                raise ConfigError("nothing was erased")
            unreached, ended = receipt.unreached, receipt.ended if choice == "park" else ()
            if words := [one.id[:12] for one in receipt.lessons if one.versions or choice != "park"]:
                unreached = (f"the words of lessons that you keep, shown or not: {', '.join(words)}", *unreached)
            file = str(directory / RECEIPTS / f"forget-{receipt.at:%Y%m%dT%H%M%S%fZ}.json")
            found = {"choice": choice, "file": file, "unreached": unreached, "ended": ended}
            receipt = receipt.model_copy(update=found)
            erasure.commit(receipt)
    with suppress(StoreLocked):  # then the process that has opened the store has finished it
        Database(directory, create=False).close()
    if (directory / INTENT).exists():
        raise StoreError(
            f"the records are out of the database of {str(directory)!r}, and other files could not be removed yet; the"
            " next command that opens the store tries again, and the log says what failed"
        )
    Outputs(directory).remove(Path(one) for one in receipt.files)
    held = (name.partition("@")[0] for one in receipt.lessons for name in one.versions if choice == "park")
    for name in sorted({*held}):
        with suppress(LibraryError):  # they are shown no more already, and the library's next reader logs it
            libraries.history(name).park_erased({one.id for one in receipt.lessons}, note="store forget")
    return receipt


def _found(
    database: Database, asked: Erased, directory: Path, libraries: LibraryStore
) -> tuple[Erasure, ErasureReceipt, Sequence[HeldLesson]]:
    """What would be erased, with its files and the lessons that rest on it."""
    commits = GroupCommit(database)
    commits.flush()
    commits.close()
    if asked.rollout:
        starting = StoreReader(LocalSource(database)).starting("rollout", asked.rollout)
        if len(starting) > 1:
            raise ConfigError(f"rollout {asked.rollout!r} is ambiguous; give more of the id", code="unknown_rollout")
        asked = asked.model_copy(update={"rollout": "".join(starting) or asked.rollout})
    erasure = Erasure(database, asked)
    archives = [repr(one) for one in dict.fromkeys(one.archive for one in receipts_of(directory)) if one]
    if not erasure.receipt.rollouts and not erasure.receipt.feedback:
        erasure.close()
        elsewhere = f"; these archives were not searched: {', '.join(archives)}" if archives else ""
        raise ConfigError(
            f"the store {str(directory)!r} holds no record {erasure.receipt.words}; `agentlearn runs list` shows the"
            f" runs, and `agentlearn view` the recorded rollouts{elsewhere}"
        )
    held = libraries.lessons_from([one.id for one in erasure.receipt.lessons])
    shown = _shown(libraries)
    resting = {one.id: one for one in erasure.receipt.lessons} | {
        one.experience.id: RestingLesson(
            id=one.experience.id,
            versions=one.versions,
            shown=tuple(name for name, ids in shown.items() if one.experience.id in ids),
        )
        for one in held
    }
    files, changed = _files(directory, erasure.receipt, lessons=bool(resting))
    unreached = (
        *(f"{str(one)!r}, which was moved, or changed since it was written" for one in changed),
        *(f"the archive {one}: take it in with `store merge`, erase again, and delete it" for one in archives),
        *_UNREACHED,
    )
    found = {
        "store": str(directory),
        "files": tuple(map(str, files)),
        "lessons": tuple(resting.values()),
        "ended": tuple(_ended(libraries, StoreReader(LocalSource(database)), tuple(resting.values()))),
        "unreached": unreached,
    }
    return erasure, erasure.receipt.model_copy(update=found), held


STARTED = "started"
"""Folder of a store with what runs printed that were started over MCP."""
_WITH_IDS = ("live/*/under_way.json", f"{STARTED}/*.json")
"""Files that hold ids of runs and rollouts, besides pages."""


def _shown(libraries: LibraryStore) -> Mapping[str, Collection[ExperienceId]]:
    """The lessons that each branch and canary of each library shows, by its name."""
    found = dict[str, Collection[ExperienceId]]()
    for name in libraries.names():
        history = libraries.history(name)
        canary = history.canary
        labels = {f"{name}@{label}": version for label, version in history.state.branches.items()}
        labels |= {f"the canary {name}@{canary.version[:12]}": canary.version} if canary else {}
        found |= {label: history.not_shown().applied(history.stored(one)).by_id for label, one in labels.items()}
    return found


def _ended(libraries: LibraryStore, reader: StoreReader, lessons: Sequence[RestingLesson]) -> Iterator[str]:
    """What parking lessons ends or changes."""
    for place in dict.fromkeys(place for one in lessons for place in one.shown):
        number = counted_lessons(sum(place in one.shown for one in lessons))
        yield f"{place} {'ends: it shows' if place.startswith('the canary ') else 'no longer shows'} {number}"
    rule = NotShown({one.id: RESTS_ON_ERASED for one in lessons})
    waiting = (one for one in pending_versions(reader, libraries) if not brings_more(one, reader, rule))
    yield from (f"{one.reference} waits no longer: it brings nothing else" for one in waiting)


def _files(directory: Path, receipt: ErasureReceipt, *, lessons: bool) -> tuple[list[Path], list[Path]]:
    """Files that hold what is erased and are removed; and those that somebody changed or moved."""
    ids = {one.encode() for one in (*receipt.runs, *receipt.rollouts, *receipt.tasks)}
    reports = ((page, page.name.encode() + page.read_bytes()) for page in (directory / "reports").glob("*.html"))
    pages = [page for page, text in reports if not ids.isdisjoint(_ids_in(text))]
    written_by_runs = (file for pattern in _WITH_IDS for file in directory.glob(pattern))
    begun = [file for file in written_by_runs if not ids.isdisjoint(_ids_in(file.read_bytes()))]
    copies = [
        one
        for pattern in ("*.damaged-*", "*.draft", "spill", SNAPSHOTS, f"live/*/{KEPT_FILE}*")
        for one in directory.glob(pattern)
    ]
    vectors = [*directory.glob(f"{EMBEDDINGS_FILE}*")] if lessons else []
    written = Outputs(directory).holding(receipt.runs)
    return (
        [
            *(one.relative_to(directory) for one in (*pages, *begun, *copies, *vectors)),
            *(file for file, same in written.items() if same),
        ],
        [file for file, same in written.items() if not same],
    )


def _ids_in(text: bytes) -> list[bytes]:
    return re.findall(rb"[0-9a-z]{26,32}", text)

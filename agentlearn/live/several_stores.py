"""Take other stores in, and move old records to an archive."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from agentlearn.errors import ConfigError, StoreError, StoreLocked
from agentlearn.library import LibraryStore
from agentlearn.library.import_lessons import import_lessons
from agentlearn.store.archive import archive_rows, archives_in
from agentlearn.store.database import Database
from agentlearn.store.erasure_intent import INTENT, RECEIPTS, ErasureReceipt, note_erased, receipts_of
from agentlearn.store.group_commit import GroupCommit
from agentlearn.store.merging import merge_rows
from agentlearn.text.files import own_folder, refuse_links, write_whole
from agentlearn.types.experience import held_lessons
from agentlearn.types.value import Value


class Merged(Value):
    """What was taken in from one source."""

    source: str
    added: dict[str, int]
    """Number of new rows by table; empty when this store had everything."""
    libraries: tuple[str, ...] = ()
    """Libraries that came along with their versions and their history, where that was asked for."""
    waiting: tuple[str, ...] = ()
    """Libraries that came along as others' lessons: no agent sees one until a person approves it."""
    differing: tuple[str, ...] = ()
    """Libraries of the source whose name means other lessons here. They stay as they are."""


def merge_stores(
    sources: Sequence[Path | str],
    store: Path | str,
    *,
    libraries: bool = False,
    told: Callable[[Merged], None] = lambda _: None,
) -> tuple[Merged, ...]:
    """Take in the records of other stores, of recorders on other machines, and of archives, one after the other.

    sources: directories; none of them changes. store: the store that gets them; it is made if there is none.
    libraries: take libraries over as they are, and believe what they say about who wrote a lesson; else their lessons
    wait for a person. told: gets what was taken in from each as soon as it is durable. Records that the store has are
    left out, so the same source may be merged again. What was erased here, or in a source, does not come back.

    Blocks. Needs room beside the store for a copy of each source. Raises ConfigError for an id that names different
    records; StoreMissing, StoreLocked, StoreDamaged, UnknownSchema and StoreError. Then nothing of that source was
    taken in; those before it were.
    """
    target, done = Path(store).absolute(), list[Merged]()
    given = (Path(one).absolute() for one in sources)
    for source in (part for one in given for part in (archives_in(one) or (one,))):
        if source.resolve() == target.resolve():
            raise ConfigError(
                f"{str(source)!r} is the store that the others are merged into; leave it out, or pass another --store"
            )
        theirs = receipts_of(source)
        with closing(Database(target, create=True)) as database:
            erased = [one for one in (*receipts_of(target), *theirs) if not one.archive]
            added = merge_rows(database, source, erased)
            for one in theirs:
                kept = own_folder(target / RECEIPTS, target) / Path(one.file).name
                if not kept.exists():
                    write_whole(kept, one.model_dump_json(indent=1).encode(), private=True)
            note_erased(target, theirs)
            came, differing = _libraries(source, target, as_they_are=libraries)
        found = {"libraries" if libraries else "waiting": came, "differing": differing}
        done.append(Merged(source=str(source), added=added, **found))
        told(done[-1])
    return tuple(done)


def _libraries(source: Path, target: Path, *, as_they_are: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take in the libraries whose name is free. Returns the names that came, and those that mean something else."""
    theirs, ours = LibraryStore(source / "libraries"), LibraryStore(target / "libraries")
    came, differing = list[str](), list[str]()
    known = frozenset(ours.names())
    try:
        refuse_links(theirs.directory)
        with TemporaryDirectory(prefix=".draft-", dir=own_folder(ours.directory, target)) as draft:
            for name in theirs.names():
                version = theirs.history(name).load()
                if name not in known and as_they_are:
                    shutil.copytree(theirs.directory / name, Path(draft, name))
                    LibraryStore(draft).history(name).load()  # whole, and not changed meanwhile
                    Path(draft, name).rename(ours.directory / name)
                    came.append(name)
                elif name not in known and held_lessons(version):
                    theirs.export(name, Path(draft, f"{name}.json"))
                    imported = import_lessons(Path(draft, f"{name}.json"), name=name, store=ours)
                    note = f"merged from {source}"
                    ours.history(name).update(imported.added_to, kind="import", note=note)
                    came.append(name)
                elif name in known and version.version not in ours.versions(name):
                    here = {one.lesson for one, _ in held_lessons(ours.load(name)).values()}
                    differing += [name] * any(one.lesson not in here for one, _ in held_lessons(version).values())
    except OSError as error:
        raise StoreError(
            f"the records of {str(source)!r} were taken in, and its libraries could not be: {error}; merge again"
        ) from error
    return tuple(came), tuple(differing)


def archive_store(store: Path | str, before: datetime, to: Path | str, *, keep: bool = False) -> ErasureReceipt | None:
    """Write the runs that were done and the live records that began before a time to an archive, and take them out.

    to: a folder, which may hold other archives. Each gets a folder of its own there. keep: leave them in the store.
    Returns the receipt, which names the archive; None when there was nothing to archive. What was written is read again
    and compared before anything leaves the store. A kill leaves the store as it was, or the next command that opens it
    finishes.

    The store keeps each run's line and report, its proposals, and the rollouts that lessons were learned from. Blocks,
    and needs room for a second copy of the database. Raises ConfigError for a time without a time zone, StoreMissing,
    StoreLocked, StoreError.
    """
    directory = Path(store).absolute()
    if before.tzinfo is None:
        raise ConfigError(f"before is {before.isoformat()!r} without a time zone; use datetime(..., tzinfo=UTC)")
    with closing(Database(directory, create=False)) as database:
        with closing(GroupCommit(database)) as commits:
            commits.flush()
        done = archive_rows(database, before, Path(to).absolute(), keep=keep)
    if done is not None and not keep:
        with suppress(StoreLocked):  # then the process that has opened the store has finished it
            Database(directory, create=False).close()
        if (directory / INTENT).exists():
            raise StoreError(
                f"the archive {done.archive!r} is complete, and its records are not out of {str(directory)!r} yet; the"
                " next command that opens the store tries again, and the log says what failed"
            )
    return done

"""Begin a store without DuckDB: a journal and a watermark. The next command that opens the store makes the database."""

import secrets
import time
from importlib.util import find_spec
from pathlib import Path

from agentlearn.errors import StoreError, StoreLocked
from agentlearn.files import refuse_links
from agentlearn.store.file_watch import make_private
from agentlearn.store.journal_file import JOURNAL, make_journal
from agentlearn.store.lock import StoreLock
from agentlearn.store.watermark import WATERMARK, Acknowledged, read_watermark, write_watermark

_DATABASE = "store.duckdb"
_PATIENCE_S = 60.0
_PAUSE_S = 0.01


def begin_store(directory: Path) -> None:
    """Make a store in `directory` unless there is one. Any number of processes may do so at once. Blocks.

    Raises StoreError when the directory cannot be written; StoreDamaged when a file of the store is damaged or missing.
    """
    give_up = time.monotonic() + _PATIENCE_S
    try:
        while read_watermark(directory / WATERMARK) is None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            refuse_links(directory)
            try:
                lock = StoreLock(directory)
            except StoreLocked:  # another process is making it
                if time.monotonic() > give_up:
                    raise
                time.sleep(_PAUSE_S)
                continue
            try:
                begun = _begin(directory)
            finally:
                lock.release()
            if not begun:
                _open_once(directory)
    except OSError as error:
        raise StoreError(f"the store {str(directory)!r} cannot be used: {error}", code="store_write") from error


def _begin(directory: Path) -> bool:
    """Make the files; False when there is an unfinished store. The caller holds the store's lock."""
    if read_watermark(directory / WATERMARK) is not None:
        return True
    if (directory / _DATABASE).exists():
        return False
    identity = secrets.token_hex(16)
    make_journal(directory / JOURNAL, identity)
    write_watermark(directory / WATERMARK, Acknowledged(identity, 0, 0))  # last: without it, all of this is done again
    make_private(directory)
    return True


def _open_once(directory: Path) -> None:
    """Let DuckDB complete a store whose making was interrupted."""
    if find_spec("duckdb") is None:
        raise StoreError(
            f"the store {str(directory)!r} is unfinished, because its making was interrupted; open it once with"
            " `agentlearn runs list` where all of agentlearn is installed (pip install 'agentlearn-lib[learn]')",
            code="store_unfinished",
        )
    from agentlearn.store.database import Database

    try:
        Database(directory, create=True).close()
    except StoreLocked:  # another process has opened it, which completes it as well
        time.sleep(_PAUSE_S)

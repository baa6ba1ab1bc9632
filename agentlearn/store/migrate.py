"""Forward-only migrations: numbered SQL files, each applied once, in a transaction, and recorded with its checksum."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import duckdb

from agentlearn.errors import SchemaTooNew, StoreError
from agentlearn.installed import version


@dataclass(frozen=True, slots=True)
class Migration:
    """One file `NNNN_name.sql`."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Hash of the file's text."""
        return hashlib.blake2b(self.sql.encode(), digest_size=16).hexdigest()


@cache
def known_migrations() -> tuple[Migration, ...]:
    """The migrations that this agentlearn ships, in order."""
    found = [file for file in files("agentlearn.store.migrations").iterdir() if file.name.endswith(".sql")]
    migrations = [
        Migration(version=int(file.name[:4]), name=file.name, sql=file.read_text(encoding="utf-8")) for file in found
    ]
    return tuple(sorted(migrations, key=lambda migration: migration.version))


def pending_migrations(
    connection: duckdb.DuckDBPyConnection, store: str, migrations: Sequence[Migration]
) -> tuple[Migration, ...]:
    """The migrations that the store still needs. Changes nothing. Raises SchemaTooNew, StoreError."""
    applied = _applied(connection)
    newest = max(applied, default=0)
    if newest > migrations[-1].version:
        _, writer = applied[newest]
        raise SchemaTooNew(
            f"the store {store!r} has schema {newest}, written by agentlearn {writer}; this agentlearn"
            f" {version()} reads schemas up to {migrations[-1].version}:"
            " pip install --upgrade agentlearn-lib"
        )
    for migration in migrations:
        if migration.version in applied and applied[migration.version][0] != migration.checksum:
            raise StoreError(
                f"migration {migration.name!r} differs from the one that was applied to the store {store!r}; a released"
                " migration is never edited: install the agentlearn that wrote the store",
                code="changed_migration",
            )
    return tuple(migration for migration in migrations if migration.version not in applied)


def apply_migrations(connection: duckdb.DuckDBPyConnection, migrations: Sequence[Migration]) -> None:
    """Apply the migrations, each in a transaction followed by a checkpoint, so that none stays in the log."""
    for migration in migrations:
        connection.begin()
        try:
            connection.execute(migration.sql)
            connection.execute(
                "INSERT INTO schema_migration VALUES (?, ?, ?, now(), ?, ?)",
                [
                    migration.version,
                    migration.name,
                    migration.checksum,
                    version(),
                    duckdb.__version__,
                ],
            )
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        connection.execute("CHECKPOINT store")


def _applied(connection: duckdb.DuckDBPyConnection) -> dict[int, tuple[str, str]]:
    """Checksum and agentlearn version of each applied migration, by migration number."""
    tables = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'store'"
    if ("schema_migration",) not in connection.execute(tables).fetchall():
        return {}
    rows = connection.execute("SELECT version, checksum, agentlearn FROM schema_migration").fetchall()
    return {number: (checksum, writer) for number, checksum, writer in rows}

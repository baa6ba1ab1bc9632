"""Rows to be stored. Values that cannot be stored are refused here, before the write is queued."""

import math
from datetime import datetime
from typing import NamedTuple

from agentlearn.errors import StoreError
from agentlearn.store.text import escape


class TableRow(NamedTuple):
    """One row of a table, by column. `GroupCommit` adds the column `seq`."""

    table: str
    values: dict[str, object]


RowGroup = tuple[TableRow, ...]
"""Rows that are stored together or not at all."""


def row(table: str, **values: object) -> TableRow:
    """The row with storable values. Raises StoreError for a number that is not finite or a time without a time zone."""
    return TableRow(table, {column: _storable(value, table, column) for column, value in values.items()})


def unfit_number(unit: RowGroup) -> str | None:
    """A sentence about the first integer that does not fit into 64 bits; None when all fit."""
    for table, values in unit:
        for column, value in values.items():
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                return f"{column} of a {table} is {value}, which does not fit into 64 bits"
    return None


def _storable(value: object, table: str, column: str) -> object:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, tuple):
        return [_storable(item, table, column) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise StoreError(
            f"{column} of a {table} is {value}; store a finite number, or None if it is unknown",
            code="not_finite",
        )
    if isinstance(value, datetime) and value.tzinfo is None:
        raise StoreError(
            f"{column} of a {table} is {value.isoformat()!r} without a time zone; use datetime.now(UTC)",
            code="no_time_zone",
        )
    return value

"""Rows on their way into the database: what may not be stored is refused here, before anybody waits for it."""

import math
from datetime import datetime
from typing import NamedTuple

from agentlearn.errors import StoreError
from agentlearn.store.text import escape


class TableRow(NamedTuple):
    """One row of one table, by column. The ledger adds the column `seq`."""

    table: str
    values: dict[str, object]


RowGroup = tuple[TableRow, ...]
"""Rows that are stored together or not at all."""


def row(table: str, **values: object) -> TableRow:
    """The row in storable form. Raises StoreError for a number that is not finite and for a time without a zone."""
    return TableRow(table, {column: _storable(value, table, column) for column, value in values.items()})


def unfit_number(unit: RowGroup) -> str | None:
    """What is wrong with a whole number that no column holds; None where all fit."""
    for table, values in unit:
        for column, value in values.items():
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                return f"{column} of a {table} is {value}, more than 64 bits hold"
    return None


def _storable(value: object, table: str, column: str) -> object:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, tuple):
        return [_storable(item, table, column) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise StoreError(
            f"{column} of a {table} is {value}; the store takes finite numbers, or None where it is not known",
            code="not_finite",
        )
    if isinstance(value, datetime) and value.tzinfo is None:
        raise StoreError(
            f"{column} of a {table} is {value.isoformat()!r}, a time without a zone; use datetime.now(UTC)",
            code="no_time_zone",
        )
    return value

"""The walks that tests of one module share."""

from collections.abc import Iterator

import pytest

from tests.support.walking import Walking, walking


@pytest.fixture(scope="module")
def walks() -> Iterator[Walking]:
    """Walks over small sites in one browser."""
    with walking() as one:
        yield one

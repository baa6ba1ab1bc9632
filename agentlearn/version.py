"""The installed version."""

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


@cache
def version() -> str:
    """Version of the distribution `agentlearn-lib`; `0+unknown` when it is not installed."""
    try:
        return installed("agentlearn-lib")
    except PackageNotFoundError:
        return "0+unknown"

"""What is installed: the version, and the extra `learn` with what learning needs and using lessons does not."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from importlib.util import find_spec

from agentlearn.errors import MissingExtra


@cache
def version() -> str:
    """Version of the distribution `agentlearn-lib`; `0+unknown` when it is not installed."""
    try:
        return installed_version("agentlearn-lib")
    except PackageNotFoundError:
        return "0+unknown"


LEARN_MODULES = ("cyclopts", "duckdb", "markdown_it", "mpmath", "numpy", "openai", "rich", "sympy", "yaml")
"""What only the extra installs, by the names under which Python imports it."""
_INSTALL_LEARN = "pip install 'agentlearn-lib[learn]'"
_SHOWN = 3


def require_learn(feature: str) -> None:
    """Raise MissingExtra when a package of the extra is not installed. feature: what needs it, for the sentence."""
    if missing := _missing():
        raise _missing_learn(feature, missing)


def missing_learn_of(feature: str, error: ImportError) -> MissingExtra | None:
    """Return the error for an import that failed because the extra is not installed; None for any other failure."""
    missing = _missing()
    return _missing_learn(feature, missing) if (error.name or "").partition(".")[0] in missing else None


def _missing() -> list[str]:
    missing = list[str]()
    for name in LEARN_MODULES:
        try:
            if find_spec(name) is None:
                missing.append(name)
        except (ImportError, ValueError):  # another program hides the package
            missing.append(name)
    return missing


def _missing_learn(feature: str, missing: Sequence[str]) -> MissingExtra:
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return MissingExtra(
        f"{feature} needs packages that are not installed ({', '.join(missing[:_SHOWN])}{more}): {_INSTALL_LEARN}"
    )

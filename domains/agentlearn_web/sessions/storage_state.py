"""Saved sessions: cookies and local storage in Playwright's format. Their values are kept out of every stored text."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from agentlearn.errors import ConfigError
from agentlearn.files import readable
from agentlearn.secret_values import know_secret

LEAST = 16
"""Shorter values of cookies and of local storage are taken for settings such as `accepted`, and not kept secret."""
_MAX_BYTES = 20_000_000


class _Part(BaseModel):
    """A part of a saved session. Playwright's further fields are kept as they are."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Cookie(_Part):
    """A cookie."""

    name: str
    value: str = Field(repr=False)


class StoredItem(_Part):
    """One entry of local storage."""

    name: str
    value: str = Field(repr=False)


class StoredOrigin(_Part):
    """The local storage of one origin, such as `https://example.org`."""

    origin: str
    localStorage: tuple[StoredItem, ...] = ()


class StorageState(_Part):
    """A saved session, as Playwright writes it."""

    cookies: tuple[Cookie, ...]
    origins: tuple[StoredOrigin, ...]

    def keep_secret(self) -> None:
        """Leave the values of the session out of later texts."""
        for value in self._values():
            if len(value) >= LEAST and not any(letter.isspace() for letter in value):
                know_secret(value)

    def _values(self) -> Iterator[str]:
        yield from (cookie.value for cookie in self.cookies)
        for origin in self.origins:
            yield from (item.value for item in origin.localStorage)


def read_storage_state(path: Path) -> StorageState:
    """Return the saved session in a file. Raises ConfigError, which shows no value of it."""
    try:
        text = readable(path).read_text(encoding="utf-8") if path.stat().st_size <= _MAX_BYTES else ""
        state = StorageState.model_validate_json(text)
    except FileNotFoundError:
        raise ConfigError(f"there is no storage state {str(path)!r}; check the path", code="missing_file") from None
    except OSError as error:
        raise ConfigError(
            f"the storage state {str(path)!r} cannot be read: {error.strerror}; check the path", code="bad_session"
        ) from None
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{str(path)!r} is not a storage state; write one with Playwright's `context.storage_state(path=...)`,"
            " or with `playwright open --save-storage=FILE`",
            code="bad_session",
        ) from None
    state.keep_secret()
    return state

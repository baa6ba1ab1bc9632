"""Tenants: each has a store of its own below the shared one, and its agents are shown the shared lessons too.

STORE/tenants/NAME is a whole store: records, libraries, what waits, reports. Nothing of a tenant lies elsewhere. The
shared library of the same name is only read: a tenant's runs, edits and erasures change the tenant's own store.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice, product
from pathlib import Path

from agentlearn.errors import ConfigError, LibraryError
from agentlearn.library.history.change_log import is_library_name
from agentlearn.library.store import GivenLibrary, LibrarySource, LibraryStore, WhenMissing, open_source
from agentlearn.text.files import own
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import LibraryVersion

_FOLDER = "tenants"
_RECENT = 16
"""Versions of each of the two libraries that a conversation may have begun with before a restart."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")


def tenant_store(store: Path | str | None, tenant: str | None) -> Path:
    """Return the store of a tenant of a store, which need not exist; without a tenant, the store itself.

    store: None: AGENTLEARN_STORE, else `.agentlearn`. Raises ConfigError for a name that could mean another folder, and
    where a link stands in the place of the tenant's folder.
    """
    if store is None:
        from agentlearn.config.defaults import default_store  # here: applications need no settings

        store = default_store()
    if tenant is None:
        return Path(store)
    if not _NAME.fullmatch(tenant):
        raise ConfigError(
            f"{tenant!r} is not a valid name for a tenant; use 1 to 64 lower-case letters, digits, '.', '_' and '-',"
            " with a letter or a digit at both ends"
        )
    if Path(store).absolute().parent.name == _FOLDER:
        raise ConfigError(f"the store {str(store)!r} is a tenant's already; give the shared store")
    try:
        return own(Path(store) / _FOLDER / tenant, Path(store))
    except OSError as error:
        raise ConfigError(f"the store of tenant {tenant!r} cannot be used: {error}") from error


def tenants_of(store: Path) -> Iterator[tuple[str, Path]]:
    """The name and the store of each tenant of a store, by name."""
    for name in sorted(one.name for one in (store / _FOLDER).glob("*") if one.is_dir()):
        with suppress(ConfigError):  # a folder with another name, or a link, is no tenant's
            yield name, tenant_store(store, name)


class _TenantSource(LibrarySource):
    """The lessons of a shared library, then those that a tenant's library of the same name adds."""

    def __init__(
        self,
        shared: LibrarySource,
        of_tenant: LibrarySource,
        published: Callable[[], Iterator[tuple[Library, Library]]],
    ) -> None:
        """published: returns the pairs of versions that could have been shown together before this process began."""
        super().__init__(of_tenant.current(), of_tenant.name, canary=of_tenant.canary)
        self._published = published
        self.shared, self.of_tenant, self.follows = shared, of_tenant, of_tenant.follows
        self._made = dict[tuple[LibraryVersion, LibraryVersion], Library]()
        self._parts = dict[LibraryVersion, tuple[LibraryVersion, LibraryVersion] | None]()

    @property
    def identity(self) -> object:
        return self.shared.identity, self.of_tenant.identity

    def current(self, episode: str | None = None) -> Library:
        shared, added = self.shared.current(), self.of_tenant.current(episode)
        parts = (shared.version, added.version)
        if parts not in self._made:  # two of the latest are read in turn while the tenant has a canary
            self._made = {**dict([*self._made.items()][1 - _RECENT :]), parts: _joined(shared, added)}
            self._parts[self._made[parts].version] = parts
        return self._made[parts]

    def going_on(self, version: LibraryVersion, episode: str | None = None) -> Library:
        current = self.current(episode)
        if version not in self._parts:  # another process showed it, or none
            self._parts[version] = None
            with suppress(LibraryError):
                shown = (pair for pair in self._published() if _joined(*pair).version == version)
                self._parts[version] = next(((one.version, two.version) for one, two in shown), None)
        parts = self._parts[version]
        if version == current.version or parts is None:
            return current
        return _joined(self.shared.going_on(parts[0]), self.of_tenant.going_on(parts[1], episode))


def _joined(shared: Library, added: Library) -> Library:
    """One library of both, which names both. A lesson of the tenant in the words of a shared one is left out."""
    if not len(shared):
        return added
    words = {one.lesson.casefold() for one in shared.experiences}
    own_lessons = [
        one for one in added.experiences if one.id not in shared.by_id and one.lesson.casefold() not in words
    ]
    return Library(parent=added.version, joined=shared.version, experiences=(*shared.experiences, *own_lessons))


def _published(name: str, places: tuple[Path, Path]) -> Iterator[tuple[Library, Library]]:
    """The pairs of the latest versions of a library in two stores; each may also have had no lessons."""
    stores = (LibraryStore(place / "libraries") for place in places)
    shared, added = ([*islice(store.exported(name), _RECENT), EMPTY_LIBRARY] for store in stores)
    return product(shared, added)


def open_tenant_source(
    given: GivenLibrary,
    *,
    tenant: str | None,
    store: Path | str | None,
    follow: bool | None,
    missing: WhenMissing | None,
    canary: bool | None,
) -> LibrarySource:
    """Return the source of what an application gave, for a tenant. Raises LibraryError and ConfigError.

    tenant: None: as `open_source`. Both libraries may be missing, and it is an error, by `missing`, if both are.
    canary: let a share of episodes read the canary of the tenant's own library.
    """
    follow, missing, canary = bool(follow), missing or "error", False if canary is None else canary
    if tenant is None:
        return open_source(given, store=store, follow=follow, missing=missing, canary=canary)
    if not isinstance(given, str) or not is_library_name(given):
        raise LibraryError(
            f"tenant={tenant!r} needs the name of a library, which both stores may have, not {given!r:.80}"
        )
    places, found = (tenant_store(store, None), tenant_store(store, tenant)), list[LibrarySource]()
    for number, place in enumerate(places):
        try:
            found.append(open_source(given, store=place, follow=follow, missing="error", canary=canary and number == 1))
        except LibraryError as error:
            both = number and not len(found[0].current())
            if error.code != "unknown_library" or (both and missing == "error"):
                raise
            found.append(open_source(given, store=place, follow=follow, missing="empty", canary=canary and number == 1))
    return _TenantSource(found[0], found[1], partial(_published, given, places))

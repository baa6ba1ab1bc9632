"""How the walks of a run reach sites: the user's options, read and checked."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from agentlearn.config import LoginAct, SiteOptions
from agentlearn_web.boundary.access_policy import HostPort, read_allowed_host
from agentlearn_web.boundary.upstream import UpstreamProxy, upstream_proxy
from agentlearn_web.browser.pool import BrowserOptions
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.sessions.certificates import read_certificates, trusting_home
from agentlearn_web.sessions.login import login_values
from agentlearn_web.sessions.storage_state import StorageState, read_storage_state


@dataclass(frozen=True, slots=True)
class SiteAccess:
    """How walks reach sites. Secrets are in memory only."""

    allowed: frozenset[HostPort] = frozenset()
    """Hosts that the user allows."""
    state: StorageState | None = field(default=None, repr=False)
    """Session with which each walk starts; None: without one."""
    login: tuple[LoginAct, ...] = ()
    """Acts that are done once per run, before the first walk."""
    upstream: UpstreamProxy | None = None
    certificates: tuple[str, ...] = ()
    """Further trusted certificates, in PEM."""

    @contextmanager
    def browser_options(self, walk: WalkSettings) -> Generator[BrowserOptions]:
        """Yield the options of a browser pool that reaches sites like that. Raises ConfigError without certutil."""
        options = BrowserOptions(walk=walk, upstream=self.upstream)
        if not self.certificates:
            yield options
            return
        with trusting_home(self.certificates) as environment:
            yield replace(options, environment=environment)


def site_access(options: SiteOptions) -> SiteAccess:
    """Return what the options say, with their files and environment variables read. Raises ConfigError."""
    allowed = [read_allowed_host(one) for one in options.allow_host]
    login_values(options.login)
    more: dict[str, Any] = {}
    if options.ca_file is not None:
        more["certificates"] = read_certificates(options.ca_file)
    if options.storage_state is not None:
        more["state"] = read_storage_state(options.storage_state)
    if options.site_proxy is not None:
        more["upstream"] = upstream_proxy(
            options.site_proxy,
            login_variable=options.site_proxy_login,
            looks_up=options.site_proxy_lookup,
            ca_file=options.ca_file,
        )
    return SiteAccess(allowed=frozenset[HostPort]().union(*allowed), login=options.login, **more)

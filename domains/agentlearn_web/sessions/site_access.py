"""How the walks of a run reach sites: the user's options, read and checked.

Chromium on Linux reads them from a database in the home folder of its user, so it gets a home folder of its own. It
checks names, dates and signatures as for every other certificate. Its switch that ignores errors for listed keys is
not used: it accepts any server that sends a listed certificate along.
"""

import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentlearn.config import LoginAct, SiteOptions
from agentlearn.errors import ConfigError
from agentlearn.files import readable
from agentlearn_web.boundary.access_policy import HostPort, read_allowed_host
from agentlearn_web.boundary.upstream import UpstreamProxy, upstream_proxy
from agentlearn_web.browser.pool import BrowserOptions
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.sessions.login import login_values
from agentlearn_web.sessions.storage_state import StorageState, read_storage_state

CERTUTIL = "certutil"
CERTUTIL_INSTALL = "apt-get install --no-install-recommends libnss3-tools"
_DATABASE = Path(".pki", "nssdb")
_TIMEOUT_S = 20
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def read_certificates(path: Path) -> tuple[str, ...]:
    """Return the certificates in a PEM file. Raises ConfigError when there is none, or one cannot be read."""
    try:
        found = tuple(_PEM.findall(readable(path).read_text(encoding="ascii", errors="replace")))
        for one in found:
            ssl.create_default_context().load_verify_locations(cadata=one)
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file of certificates {str(path)!r}; check the path", code="missing_file"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the certificates in {str(path)!r} cannot be read: {error}; give a PEM file", code="bad_certificates"
        ) from None
    if not found:
        raise ConfigError(
            f"{str(path)!r} holds no certificate; give a PEM file, which contains -----BEGIN CERTIFICATE-----",
            code="bad_certificates",
        )
    return found


@contextmanager
def trusting_home(certificates: tuple[str, ...]) -> Generator[dict[str, str]]:
    """Yield the environment of a browser that trusts these certificates too. Raises ConfigError without certutil."""
    program = shutil.which(CERTUTIL)
    if program is None:
        raise ConfigError(
            f"ca_file needs the program {CERTUTIL}, which is not installed; on Debian and Ubuntu: `{CERTUTIL_INSTALL}`",
            code="no_certutil",
        )
    with TemporaryDirectory(prefix="agentlearn-home-", ignore_cleanup_errors=True) as home:
        database = Path(home) / _DATABASE
        database.mkdir(parents=True)
        _run(program, "-N", "--empty-password", "-d", f"sql:{database}")
        for number, certificate in enumerate(certificates):
            # C: may sign certificates of servers; P: may be the certificate of a server itself
            given = ("-A", "-a", "-d", f"sql:{database}", "-n", f"certificate-{number}", "-t", "CP,,")
            _run(program, *given, certificate=certificate)
        yield {**os.environ, "HOME": home}


def _run(program: str, *arguments: str, certificate: str = "") -> None:
    try:
        subprocess.run(  # noqa: S603  certutil, found on the path
            [program, *arguments], input=certificate, text=True, capture_output=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        words: object = getattr(error, "stderr", None) or error
        raise ConfigError(
            f"{CERTUTIL} did not take the certificates of ca_file: {' '.join(str(words).split())}; give a PEM file",
            code="bad_certificates",
        ) from error


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

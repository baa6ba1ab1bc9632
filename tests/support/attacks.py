"""Ways in which a page can make its browser connect to an address, as JavaScript. The variable `u` is the address."""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from agentlearn.serving.http11 import HttpRequest, HttpResponse
from tests.support.cases import cases


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


HAS_IPV6 = _has_ipv6()
PUBLISHED = cases(__file__, "published")
"""These, the WebSocket and the navigation below are the fourteen attacks used to measure other tools. All of these
follow redirects."""
MORE = cases(__file__, "more")
ONCE = cases(__file__, "once")
"""These do not follow redirects, or cannot be redirected."""
UNSURE = {"speculation", "preconnect"}
"""Browsers may skip these: the first when they use a proxy, the second in a headless shell."""
PAGES = {
    "navigation": "location = u",
    "navigation by link": "const a = make('a', {href: u}); a.click()",
    "navigation by form": "document.body.append(form(u, 'post', '_self')); document.forms[0].submit()",
    "navigation by javascript address": "location = 'javascript:location = \"' + u + '\"'",
    "navigation by refresh": "make('meta', {'http-equiv': 'refresh', content: '0;url=' + u}, '', document.head)",
}
"""These navigate away from the page."""
HEADERS = {
    "content policy report": ("Content-Security-Policy", "img-src 'none'; report-uri {}"),
    "link header": ("Link", "<{}>; rel=preload; as=image"),
    "refresh header": ("Refresh", "0;url={}"),
}
"""These are headers of the page and need no script."""
_LIBRARY = """
const element = (tag, attributes, text = "") => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
};
const make = (tag, attributes, text = "", parent = document.body) => {
  const made = element(tag, attributes, text);
  parent.append(made);
  return made;
};
const form = (action, method, target) => {
  if (!target) make("iframe", {name: target = "f" + Math.random()});
  return make("form", {action, method, target});
};
const style = (text) => make("style", {}, text);
const blob = (text, type) => URL.createObjectURL(new Blob([text], {type}));
const worker = (text) => new Worker(blob(text, "text/javascript"));
const attack = (name, u, act) => {
  try { Promise.resolve(act(u)).catch(() => 0); } catch (error) { console.log(name, String(error)); }
};
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One attack with one address."""

    name: str
    act: str
    address: str
    """Address of the private service; different for each case, except for localhost names."""
    host: str = ""
    """The form in which the page writes the address; empty for the plain form."""
    redirected: bool = False
    alone: bool = False
    """Whether it needs a separate page."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers of the separate page; `{}` is replaced by the address."""
    heard: str = ""
    """The host that the proxy records; empty if it is the address."""

    @property
    def sure(self) -> bool:
        """Whether every browser makes this connection attempt."""
        return self.name not in UNSURE

    @property
    def refused_as(self) -> str:
        """The host that the proxy records for the refused request."""
        return self.heard or self.address

    def url(self, port: int) -> str:
        """Return the URL in the page: the target, or a redirect to it."""
        return f"http://evil.test/go/{self.address}" if self.redirected else self.goal(port)

    def goal(self, port: int) -> str:
        """Return the URL that the attack tries to reach."""
        return f"http://{self.host or self.address}:{port}/secret"


def cases() -> tuple[Case, ...]:
    """Return all cases, with a different address for each."""
    return (*_spread(), *_written())


def _spread() -> Iterator[Case]:
    number = 0
    for acts, alone, redirects in (
        (PUBLISHED, False, (False, True)),
        (MORE, False, (False, True)),
        (ONCE, False, (False,)),
        (PAGES, True, (False, True)),
    ):
        for name, act in acts.items():
            for redirected in redirects:
                number += 1
                words = f"{name} by redirect" if redirected else name
                yield Case(words, act, f"127.1.0.{number}", redirected=redirected, alone=alone)
    for name, (header, value) in HEADERS.items():
        number += 1
        yield Case(name, "make('img', {src: '/'})", f"127.1.0.{number}", alone=True, headers={header: value})


def _written() -> Iterator[Case]:
    """Yield cases that write a private address in unusual forms."""
    image = PUBLISHED["image"]
    forms = {
        "decimal": ("127.2.0.1", str(0x7F02_0001), ""),
        "hexadecimal": ("127.2.0.2", "0x7f020002", ""),
        "octal": ("127.2.0.3", "0177.02.0.03", ""),
        "short": ("127.2.0.4", "127.131076", ""),
        "final dot": ("127.2.0.5", "127.2.0.5.", ""),
        "full width": ("127.2.0.6", "\uff11\uff12\uff17.2.0.6", ""),
        "percent": ("127.2.0.7", "%31%32%37.2.0.7", ""),
        "localhost": ("127.0.0.1", "localhost", "localhost"),
        "name under localhost": ("127.0.0.1", "a.localhost", "a.localhost"),
    }
    if HAS_IPV6:
        forms["IPv6"] = ("::1", "[::1]", "")
        forms["IPv4 in IPv6"] = ("127.2.0.8", "[::ffff:127.2.0.8]", str(ip_address("::ffff:127.2.0.8")))
    for name, (address, host, heard) in forms.items():
        yield Case(f"address as {name}", image, address, host, heard=heard)
    yield Case("address behind a user name", "location = u", "127.2.0.9", "evil.test@127.2.0.9", alone=True)


def page(told: Mapping[str, tuple[str, str]], headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a page that makes all these attacks, given as name -> (address, act)."""
    acts = "\n".join(f"attack({name!r}, {url!r}, (u) => {{ {act} }});" for name, (url, act) in told.items())
    text = f"<!doctype html><title>evil</title><body><script>{_LIBRARY}{acts}</script>"
    return HttpResponse(200, text.encode(), headers=headers or {}, content_type="text/html; charset=utf-8")


def respond(request: HttpRequest, port: int, named: Mapping[str, Case]) -> HttpResponse:
    """Answer as the attacking site: `/all`; `/direct`, without redirects; `/case/NAME`; `/go/ADDRESS`, a redirect."""
    _, kind, *rest = request.path.split("/")
    if kind == "go":
        return HttpResponse(302, headers={"location": f"http://{rest[0]}:{port}/secret"})
    if kind == "case":
        case = named[rest[0].replace("-", " ")]
        headers = {name: value.format(case.url(port)) for name, value in case.headers.items()}
        return page({case.name: (case.url(port), case.act)}, headers)
    if kind in {"all", "direct"}:
        cases = [case for case in named.values() if not case.alone and (kind == "all" or not case.redirected)]
        return page({case.name: (case.url(port), case.act) for case in cases})
    return HttpResponse(200, b"<title>evil</title>a public page", content_type="text/html")

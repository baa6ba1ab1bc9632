"""The headers that a proxy forwards: all except those that apply to a single connection."""

from collections.abc import Iterable

import h11

from agentlearn_web.boundary.proxy_session import RequestBlocked

Fields = list[tuple[bytes, bytes]]
_HOP_BY_HOP = {
    b"connection",
    b"expect",
    b"keep-alive",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
_ALWAYS_PASSED = {b"content-length", b"host"}
"""Always forwarded, even if a Connection header lists them."""


def request_fields(request: h11.Request, authority: str) -> Fields:
    """Return the headers for the server. Host comes from the request target, never from the browser's own header."""
    fields: Fields = [(b"Host", authority.encode("ascii"))]
    if _is_chunked(request):
        fields.append((b"Transfer-Encoding", b"chunked"))
    if upgrade := requested_upgrade(request):
        fields += [(b"Connection", b"upgrade"), (b"Upgrade", upgrade)]
    else:
        fields.append((b"Connection", b"close"))
    return fields + [field for field in _end_to_end_fields(request) if field[0].lower() != b"host"]


def response_fields(response: h11.Response) -> Fields:
    """Return the headers for the browser."""
    return _end_to_end_fields(response)


def switch_fields(response: h11.InformationalResponse) -> Fields:
    """Return the headers for the browser when the server switches to another protocol."""
    upgrade = _values(response, b"upgrade")
    return [(b"Connection", b"upgrade"), (b"Upgrade", b", ".join(upgrade)), *_end_to_end_fields(response)]


def requested_upgrade(request: h11.Request) -> bytes:
    """Return the protocol that the browser asks to switch to; empty if it asks for none."""
    asked = b"upgrade" in _tokens(_values(request, b"connection"))
    return b", ".join(_values(request, b"upgrade")) if asked else b""


def has_body(request: h11.Request) -> bool:
    """Return whether a body follows. Raises RequestBlocked (bad_request) if two headers give its length."""
    lengths = _values(request, b"content-length")
    if lengths and _is_chunked(request):
        raise RequestBlocked("bad_request", "two headers tell the length of this request")
    return _is_chunked(request) or any(length != b"0" for length in lengths)


def content_length(response: h11.Response) -> int:
    """Return the body size in bytes that the response declares; 0 if it declares none."""
    return max(map(int, _values(response, b"content-length")), default=0)


def is_html(response: h11.Response) -> bool:
    """Return whether the response is an HTML page."""
    return any(value.lower().startswith(b"text/html") for value in _values(response, b"content-type"))


def _end_to_end_fields(message: h11.Request | h11.Response | h11.InformationalResponse) -> Fields:
    dropped = (_HOP_BY_HOP | _tokens(_values(message, b"connection"))) - _ALWAYS_PASSED
    return [
        (name, value)
        for name, value in message.headers.raw_items()
        if name.lower() not in dropped and not name.lower().startswith(b"proxy-")
    ]


def _is_chunked(request: h11.Request) -> bool:
    return bool(_values(request, b"transfer-encoding"))


def _values(message: h11.Request | h11.Response | h11.InformationalResponse, wanted: bytes) -> list[bytes]:
    return [value for name, value in message.headers if name == wanted]


def _tokens(values: Iterable[bytes]) -> set[bytes]:
    return {token.strip().lower() for value in values for token in value.split(b",")}

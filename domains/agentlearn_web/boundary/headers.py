"""Headers as a proxy passes them on: without those that belong to one connection only."""

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
"""Never taken for those of one connection, whatever a Connection header says."""


def request_fields(request: h11.Request, authority: str) -> Fields:
    """What the server is sent. The target is the one source of its Host, whatever the browser's own header says."""
    fields: Fields = [(b"Host", authority.encode("ascii"))]
    if _is_chunked(request):
        fields.append((b"Transfer-Encoding", b"chunked"))
    if upgrade := requested_upgrade(request):
        fields += [(b"Connection", b"upgrade"), (b"Upgrade", upgrade)]
    else:
        fields.append((b"Connection", b"close"))
    return fields + [field for field in _end_to_end_fields(request) if field[0].lower() != b"host"]


def response_fields(response: h11.Response) -> Fields:
    """What the browser is sent."""
    return _end_to_end_fields(response)


def switch_fields(response: h11.InformationalResponse) -> Fields:
    """What the browser is sent when the server agrees to another protocol."""
    upgrade = _values(response, b"upgrade")
    return [(b"Connection", b"upgrade"), (b"Upgrade", b", ".join(upgrade)), *_end_to_end_fields(response)]


def requested_upgrade(request: h11.Request) -> bytes:
    """The protocol that the browser asks to switch to; empty when it asks for none."""
    asked = b"upgrade" in _tokens(_values(request, b"connection"))
    return b", ".join(_values(request, b"upgrade")) if asked else b""


def has_body(request: h11.Request) -> bool:
    """Whether a body follows. Raises Refused (bad_request) where two headers tell its length."""
    lengths = _values(request, b"content-length")
    if lengths and _is_chunked(request):
        raise RequestBlocked("bad_request", "two headers tell the length of this request")
    return _is_chunked(request) or any(length != b"0" for length in lengths)


def content_length(response: h11.Response) -> int:
    """Bytes of the body that the response announces; 0 where it does not tell."""
    return max(map(int, _values(response, b"content-length")), default=0)


def is_html(response: h11.Response) -> bool:
    """Whether the response is a page."""
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

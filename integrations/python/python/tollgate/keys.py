"""Keys of requests, for the middleware.

A key function takes a request, which is the same for ASGI and WSGI (`peer`, `method`, `path`, `header(name)`,
`header_lines(name)`, and `raw`, the scope or environ), and returns a `str` or `bytes`, or `None` if the request has no
key. It raises `KeyMalformed` if the request has something else in place of a key.
"""

from collections.abc import Callable as _Callable
from functools import lru_cache as _lru_cache
from ipaddress import IPv6Address as _IPv6Address
from ipaddress import ip_address as _ip_address
from typing import Any as _Any
from typing import Protocol as _Protocol

__all__ = ["KeyMalformed", "KeyUnavailable", "Request", "client_ip", "header", "peer_ip"]

_BYTES_MAX = 4_096
_ENTRIES_MAX = 64


class Request(_Protocol):
    """A request of ASGI or WSGI."""

    #: The scope or the environ.
    raw: _Any

    @property
    def peer(self) -> str | None: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    def header(self, name: str) -> str | None:
        """The header's value; if the server passes on several lines, all of them with commas between."""
        ...
    def header_lines(self, name: str) -> list[str]:
        """The header's lines, as far as the server keeps them apart: servers of WSGI join them."""
        ...


class KeyMalformed(Exception):
    """The request has something else in place of a key. The response is 400, with `on_no_key="admit"` too."""


class KeyUnavailable(Exception):
    """The server does not provide what the key is made of. The response is 500."""


@_lru_cache(maxsize=4_096)
def _network(text: str) -> str | None:
    """The address as a key: IPv4 whole, IPv6 by /64, since a client has all of that. `None` if it is none."""
    try:
        address = _ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if not isinstance(address, _IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(_IPv6Address(int(address) >> 64 << 64))


def peer_ip(request: Request) -> str:
    """The address of the peer: IPv4 whole, IPv6 by /64."""
    peer = request.peer
    if peer is None:
        raise KeyUnavailable("the server does not provide the peer's address")
    key = _network(peer)
    if key is None:
        raise KeyUnavailable(f"the peer {peer!r} is no IP address")
    return key


def header(name: str) -> _Callable[[Request], str | None]:
    """The value of a header. A request without it, or with an empty value, has no key.

    A request with several such lines is denied: its client could choose a new key with each request, while the
    application reads one of the lines. A server of WSGI joins them, and then they are one value for both.
    """

    def key(request: Request) -> str | None:
        lines = request.header_lines(name)
        if len(lines) > 1:
            raise KeyMalformed(f"the header {name} is there more than once")
        return lines[0].strip(" \t") or None if lines else None

    return key


def _without_port(entry: str) -> str:
    entry = entry.strip()
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry


def client_ip(hops: int, name: str = "x-forwarded-for") -> _Callable[[Request], str | None]:
    """The address of the client behind `hops` proxies, each of which appends its peer's address to the header.

    The header is read from the right, and no further than the proxies wrote: no forged entry chooses a key. Every
    request must pass that many proxies. A request without the header has the peer's address as its key.

    - The header must reach the application. waitress removes it unless `trusted_proxy_headers` names it, and then all
      clients have one key, the proxy's address.
    - The proxy or the server must drop fields with an underscore in their name. Some servers of WSGI, such as cheroot
      and wsgiref, hand on `X_Forwarded_For` as the same variable, and a client could choose its key by it.
    """
    if not 1 <= hops <= _ENTRIES_MAX:
        raise ValueError(f"hops is {hops}: give the number of proxies in front of the server, 1 to {_ENTRIES_MAX}")

    def key(request: Request) -> str | None:
        text = (request.header(name) or "")[-_BYTES_MAX:]
        entries = [entry for entry in text.rsplit(",", hops)[-hops:] if entry.strip()]
        if not entries:
            return peer_ip(request)
        entry = _without_port(entries[0])
        if entry.lower() == "unknown" or entry.startswith("_"):
            return None  # a proxy hides the address, RFC 7239
        found = _network(entry)
        if found is None:
            raise KeyMalformed(f"the header {name} has no address where the proxies write one")
        return found

    return key

"""Where a peer is: the text `host:port` that routes and options carry, split for the sockets."""

from typing import NamedTuple

from rocketeer.errors import ConnectFailed


class HostPort(NamedTuple):
    host: str
    port: int


def join_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address; one that is IPv4 (::ffff:1.2.3.4) becomes IPv4.

    >>> join_address("::1", 9876), join_address("::ffff:10.0.0.1", 9876)
    ('[::1]:9876', '10.0.0.1:9876')
    """
    if ":" not in host:
        return f"{host}:{port}"
    if host.startswith("::ffff:") and "." in host:
        return f"{host[7:]}:{port}"
    return f"[{host.strip('[]')}]:{port}"


def split_address(address: str) -> HostPort:
    """Split `10.0.0.1:9876`, `broker.example:10911` or `[::1]:9876`; raises ConnectFailed for anything else.

    >>> split_address("[::1]:9876")
    HostPort(host='::1', port=9876)
    """
    host, colon, port = address.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConnectFailed(address, "an IPv6 address stands in brackets, as in [::1]:9876")
    if not colon or not host:
        raise ConnectFailed(address, "an address is host:port, as in 127.0.0.1:9876")
    if not (port.isascii() and port.isdigit() and len(port) < 10 and 0 < int(port) < 65536):
        raise ConnectFailed(address, f"{port!r} is not a port between 1 and 65535")
    return HostPort(host, int(port))

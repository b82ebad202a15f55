"""Where the name servers are, and which address is ours: asked once when a client starts (it may block).

In this order: the argument, the environment variable NAMESRV_ADDR, an HTTP address server. The last is given
as URL in either place, or as ROCKETMQ_NAMESRV_DOMAIN (`host[:port]`, with ROCKETMQ_NAMESRV_SUBGROUP), and
answers with the addresses as text: http://host:8080/rocketmq/nsaddr
"""

import os
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Final

from rocketeer.client.core.nameservers import parse_addresses
from rocketeer.errors import NoNameServer

VARIABLE: Final = "NAMESRV_ADDR"
DOMAIN_VARIABLE: Final = "ROCKETMQ_NAMESRV_DOMAIN"
SUBGROUP_VARIABLE: Final = "ROCKETMQ_NAMESRV_SUBGROUP"
FETCH_TIMEOUT_S: Final = 3.0
_ANSWER_BYTES_MAX: Final = 64 << 10
# Addresses of documentation; connecting a UDP socket sends nothing.
_ELSEWHERE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def discover(
    argument: str | Sequence[str] | None,
    *,
    environment: Mapping[str, str] | None = None,
    unit_name: str | None = None,
) -> tuple[str, ...]:
    """The addresses; raises NoNameServer saying where they could have come from."""
    source = find_source(argument, environment=environment, unit_name=unit_name)
    return fetch_addresses(source) if is_url(source) else parse_addresses(source)


def find_source(
    argument: str | Sequence[str] | None,
    *,
    environment: Mapping[str, str] | None = None,
    unit_name: str | None = None,
) -> str:
    """Addresses joined with `;`, or the URL to ask for them again and again."""
    env = os.environ if environment is None else environment
    given = argument if isinstance(argument, str) or argument is None else ";".join(argument)
    text = (given or env.get(VARIABLE, "")).strip()
    if not text and (domain := env.get(DOMAIN_VARIABLE, "").strip()):
        host = domain if ":" in domain else f"{domain}:8080"
        text = f"http://{host}/rocketmq/{env.get(SUBGROUP_VARIABLE) or 'nsaddr'}"
    if is_url(text):
        return f"{text}-{unit_name}?nofix=1" if unit_name else text
    if addresses := parse_addresses(text):
        return ";".join(addresses)
    raise NoNameServer(
        text=f"no name server address: give nameserver='host:9876', or set {VARIABLE}, "
        f"or {DOMAIN_VARIABLE} for an HTTP address server"
    )


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def fetch_addresses(url: str, timeout_s: float = FETCH_TIMEOUT_S) -> tuple[str, ...]:
    """What the address server answers; raises NoNameServer."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 http or https: is_url
            text = answer.read(_ANSWER_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, urllib.error.URLError, ValueError) as error:
        raise NoNameServer(text=f"the address server {url} did not answer: {error}") from error
    addresses = parse_addresses(text)
    if not addresses:
        raise NoNameServer(text=f"the address server {url} answered without an address")
    return addresses


def local_ip() -> str:
    """The address other machines see: that of the interface packets leave through."""
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                ip: str = probe.getsockname()[0]
                return ip
        except OSError:
            continue  # no way there: the machine may know only the other family
    return "127.0.0.1"

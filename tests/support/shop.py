"""What the console's tests have in their cluster of two brokers."""

from dataclasses import dataclass

from support.two_brokers import TwoBrokers

HOSTILE = '<script>alert("x")</script>'
RTL = "\u202eevil\u202c \U0001f680"
LARGE = 4 * 1024 * 1024 - 1024


@dataclass
class Shop:
    """Orders that `billing` consumes, refunds that `refusing` refused, what is hostile, binary or large."""

    pair: TwoBrokers
    nameserver: str
    client_id: str
    billed: list[str]
    """Ids of the orders that `billing` got, in the order they came."""

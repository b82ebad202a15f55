"""How options of the source and the sink are written: one reader per kind of text. What is wrong is said by name."""

import re
from collections.abc import Callable
from typing import Final

from rocketeer.client.core.config import validate_group
from rocketeer.client.core.nameservers import parse_addresses
from rocketeer.client.discovery import is_url
from rocketeer.errors import ConfigError, ConnectFailed, InvalidGroup, InvalidTopic
from rocketeer.model.topic import validate_topic_name
from rocketeer.remoting.address import split_address

_DURATION: Final = re.compile(r"([0-9]+)\s*(ms|s|m|h|d|)")
_DURATION_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE: Final = re.compile(r"([0-9]+)\s*([bkmg]?)b?")
_SIZE_BYTES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def text_of(name: str, text: str) -> str:
    """Anything but nothing, without the spaces around it."""
    if not text.strip():
        raise ConfigError(f"option {name!r} is empty")
    return text.strip()


def nameservers_of(name: str, text: str) -> str:
    """Addresses of name servers, or the URL of an address server."""
    given = text_of(name, text)
    if not is_url(given):
        addresses = parse_addresses(given)
        if not addresses:
            raise ConfigError(f"option {name!r} is {text!r}: write host:9876, several with ;")
        for address in addresses:
            try:
                split_address(address)
            except ConnectFailed as error:
                raise ConfigError(f"option {name!r} names no address: {error}") from None
    return given


def group_of(name: str, text: str) -> str:
    try:
        validate_group(text.strip())
    except InvalidGroup as error:
        raise ConfigError(f"option {name!r}: {error}") from None
    return text.strip()


def topic_of(name: str, text: str) -> str:
    topic = text_of(name, text)
    try:
        validate_topic_name(topic)
    except InvalidTopic as error:
        raise ConfigError(f"option {name!r} is {topic!r}: {error}") from None
    return topic


def flag(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ConfigError(f"option {name!r} is {text!r}: write true or false")
    return text.strip().lower() == "true"


def one_of(*words: str) -> Callable[[str, str], str]:
    """One of these words, in lower case."""

    def parse(name: str, text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise ConfigError(f"option {name!r} is {text!r}: write {' or '.join(words)}")
        return word

    return parse


def count_from(lowest: int) -> Callable[[str, str], int]:
    """A whole number, not below `lowest`."""

    def parse(name: str, text: str) -> int:
        if not (text.strip().isascii() and text.strip().isdigit()) or int(text) < lowest:
            raise ConfigError(f"option {name!r} is {text!r}: write a whole number from {lowest} on")
        return int(text)

    return parse


def duration_ms(name: str, text: str) -> int:
    """
    >>> duration_ms("maxTriggerDelay", "15m")
    900000
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ConfigError(f"option {name!r} is {text!r}: write a time like 500ms, 10s, 15m (a number is ms)")
    return int(match[1]) * _DURATION_MS[match[2]]


def time_limit_ms(name: str, text: str) -> int:
    """A duration that something can be waited for: not 0."""
    limit_ms = duration_ms(name, text)
    if not limit_ms:
        raise ConfigError(f"option {name!r} is {text!r}: nothing is ready in no time; write a time like 10s")
    return limit_ms


def size_bytes(name: str, text: str) -> int:
    """
    >>> size_bytes("fetchBytes", "4m")
    4194304
    """
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ConfigError(f"option {name!r} is {text!r}: write a size like 64m or 1g (a number is bytes)")
    return int(match[1]) * _SIZE_BYTES[match[2]]

"""What a user sends: the first value in a message's flow. The client turns it into a send request."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from rocketeer.errors import InvalidTopic, RocketeerError
from rocketeer.model import property_names as names
from rocketeer.model.delivery_time import BadDeliveryTime, delay_in_ms, deliver_at_ms
from rocketeer.model.topic import check_topic, validate_topic_name

_I32_MAX: Final = (1 << 31) - 1
_DELAY_LEVEL_MAX: Final = 18
_INSTEAD: Final = {
    names.TAGS: "tags=",
    names.KEYS: "keys=",
    names.DELAY: "delay_level=",
    names.TIMER_DELIVER_MS: "deliver_at=",
    names.TIMER_DELAY_MS: "delay=",
    names.TIMER_DELAY_SEC: "delay=",
    names.WAIT: "wait_stored=",
    names.SHARDING_KEY: "sharding_key=",
}


class InvalidMessage(RocketeerError, ValueError):
    """A message that no broker would take; the text names the argument."""


class _TopicAndBody(msgspec.Struct, frozen=True, gc=False):
    """What may be given by position."""

    topic: str
    """Where it is sent to."""
    body: bytes
    """What it says: bytes of any kind."""


class Message(_TopicAndBody, frozen=True, kw_only=True, gc=False):
    """A message to send. Checked when made, so a wrong one never reaches the network.

    >>> order = Message("Orders", b"{}", tags="new", keys=["order-7", "user-3"], properties={"colour": "red"})
    >>> order.keys
    'order-7 user-3'
    >>> order.all_properties()
    {'colour': 'red', 'TAGS': 'new', 'KEYS': 'order-7 user-3', 'WAIT': 'true'}
    >>> Message("Orders", b"{}", properties={"TAGS": "new"})
    Traceback (most recent call last):
      ...
    rocketeer.model.message.InvalidMessage: property 'TAGS' has a meaning of its own: use the argument tags=

    `keys` may be a text or a list of texts; it is kept as one text joined with spaces.
    `delay_level` 1 .. 18 delays delivery by the broker's table (1s 5s 10s 30s 1m ...); 0 delivers at once.
    `deliver_at` (a datetime with its time zone, or milliseconds since 1970) and `delay` (a timedelta, or seconds)
    time the delivery to the millisecond, days and weeks ahead; a time that has passed delivers at once.
    At most one of these three.
    `wait_stored=False` lets the broker answer before its disk or its slave has the message.
    `sharding_key` travels with the message; ordered sends choose the queue by it.
    A message does not change; `msgspec.structs.replace(message, body=...)` makes another, checked as well.
    """

    tags: str | None = None
    """One word by which consumers choose."""
    keys: str | Sequence[str] | None = None
    properties: Mapping[str, str] = {}
    """Further texts by name, the user's own."""
    flag: int = 0
    """A number of the user's own, 32 bits; brokers keep it."""
    delay_level: int = 0
    wait_stored: bool = True
    sharding_key: str | None = None
    deliver_at: datetime | int | None = None
    delay: timedelta | float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str):
            raise InvalidMessage(f"topic must be text, not {type(self.topic).__name__}")
        try:  # one call, and it is cached: one is made for every send
            validate_topic_name(self.topic)
        except InvalidTopic:
            check_topic(self.topic)  # says it with the name
        if not isinstance(self.body, bytes):
            if not isinstance(self.body, bytearray | memoryview):
                raise InvalidMessage(f"body must be bytes, not {type(self.body).__name__}: encode it first")
            force_setattr(self, "body", bytes(self.body))
        # What was not given is not looked at.
        if self.delay_level or self.deliver_at is not None or self.delay is not None:
            self._check_timing()
        if self.flag and not -_I32_MAX - 1 <= self.flag <= _I32_MAX:
            raise InvalidMessage(f"flag {self.flag} does not fit in 32 bits")
        if self.tags is not None:
            _check_text("tags", self.tags)
        if self.keys is not None:
            if not isinstance(self.keys, str):
                force_setattr(self, "keys", _joined_keys(self.keys))
            _check_text("keys", self.keys)
        if self.sharding_key is not None:
            _check_text("sharding_key", self.sharding_key)
        # A copy: the message stays as it was checked, whatever the caller does to his dict.
        properties = dict(self.properties)
        force_setattr(self, "properties", properties)
        for name, value in properties.items():
            _check_property(name, value)

    def _check_timing(self) -> None:
        if not 0 <= self.delay_level <= _DELAY_LEVEL_MAX:
            raise InvalidMessage(
                f"delay_level {self.delay_level} is not a level: they are 1 .. {_DELAY_LEVEL_MAX} (0: none); "
                "for any other time use delay= or deliver_at="
            )
        ways = {"delay_level": self.delay_level or None, "deliver_at": self.deliver_at, "delay": self.delay}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) > 1:
            raise InvalidMessage(f"{' and '.join(given)} contradict each other: give one of them")
        try:
            if self.deliver_at is not None:
                deliver_at_ms(self.deliver_at)
            if self.delay is not None:
                delay_in_ms(self.delay)
        except BadDeliveryTime as error:
            raise InvalidMessage(str(error)) from None

    @property
    def is_timed(self) -> bool:
        """Whether the broker keeps it for later."""
        return (
            bool(self.delay_level)
            or self.deliver_at is not None
            or self.delay is not None
            or names.START_DELIVER_TIME in self.properties
        )

    def all_properties(self) -> dict[str, str]:
        """The user's properties and those the other arguments stand for, ready to be encoded."""
        merged = dict(self.properties)
        if self.tags is not None:
            merged[names.TAGS] = self.tags
        if self.keys is not None:
            assert isinstance(self.keys, str), "joined when the message was made"
            merged[names.KEYS] = self.keys
        if self.delay_level:
            merged[names.DELAY] = str(self.delay_level)
        if self.deliver_at is not None:
            merged[names.TIMER_DELIVER_MS] = str(deliver_at_ms(self.deliver_at))
        if self.delay is not None:
            merged[names.TIMER_DELAY_MS] = str(delay_in_ms(self.delay))
        if self.sharding_key is not None:
            merged[names.SHARDING_KEY] = self.sharding_key
        merged[names.WAIT] = "true" if self.wait_stored else "false"
        return merged


def _joined_keys(keys: str | Sequence[str]) -> str:
    if isinstance(keys, str):
        return keys
    if not isinstance(keys, Iterable) or isinstance(keys, bytes | bytearray | memoryview):
        raise InvalidMessage(f"keys must be text or a list of texts, not {type(keys).__name__}")
    keys = list(keys)
    for key in keys:
        if not isinstance(key, str):
            raise InvalidMessage(f"keys must be texts, not {type(key).__name__}")
        if not key or names.KEY_SEPARATOR in key:
            raise InvalidMessage(f"key {key!r} is empty or has a space in it: a space separates keys")
    return names.KEY_SEPARATOR.join(keys)


def _check_property(name: object, value: object) -> None:
    if not isinstance(name, str):
        raise InvalidMessage(f"property names must be texts, not {type(name).__name__}")
    if name in names.RESERVED:
        advice = f"use the argument {_INSTEAD[name]}" if name in _INSTEAD else "choose another name"
        raise InvalidMessage(f"property {name!r} has a meaning of its own: {advice}")
    if not name.strip():
        raise InvalidMessage(f"property name {name!r} is blank")
    if "\x01" in name or "\x02" in name:
        raise InvalidMessage(f"property name {name!r} holds \\x01 or \\x02, which separate properties")
    if not name.isprintable():
        _check_unicode(f"property name {name!r}", name)
    _check_text(f"property {name!r}", value)


def _check_text(what: str, value: object) -> None:
    if type(value) is str and value.isprintable() and not value.isspace() and value:
        return  # nearly all of them
    if not isinstance(value, str):
        raise InvalidMessage(f"{what} must be text, not {type(value).__name__}")
    if not value.strip():
        raise InvalidMessage(f"{what} is blank: leave it out instead")
    if "\x01" in value or "\x02" in value:
        raise InvalidMessage(f"{what} holds \\x01 or \\x02, which separate properties: {value!r}")
    _check_unicode(what, value)


def _check_unicode(what: str, value: str) -> None:
    """Half of a surrogate pair, as undecodable file names have them, is no text that can be sent."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessage(f"{what} cannot be written as UTF-8: {error}") from None

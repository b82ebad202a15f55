"""Options of the wrong kind are refused by name when a client is made, not by a time-out that never comes.

Type checkers see most of them; values from files and environments pass those by.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, fields
from difflib import get_close_matches
from enum import Enum
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

from rocketeer.errors import ConfigError, UnknownOption

_OF_CLOUDS = {
    "accesschannel": "it sends traces to Alibaba Cloud's own topic; here trace_topic= says where they go",
    "onschannel": "it chooses between Alibaba's installations; here nameserver= is all there is",
    "onsaddr": "the address server of Alibaba Cloud; an address server of your own is given as nameserver=",
    "regionid": "the region of a cloud's instance; brokers here have none",
    "instanceid": "the instance of a cloud's service; what separates programs here is namespace=",
    "securitytoken": "a temporary login of Alibaba Cloud; accounts here have access_key= and secret_key=",
}
"""Refused with the reason, rather than with the name of an option that looks alike."""

Options = TypeVar("Options", bound=Mapping[str, Any])
Item = TypeVar("Item")


def listed(name: str, given: Iterable[Item]) -> tuple[Item, ...]:
    """What was given as a list; raises ConfigError for a single one, which is easily meant to be a list of one."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"{name} is {given!r:.80}: it must be a list")
    return tuple(given)


def known_options(kind: Any, options: Options) -> Options:
    """The options themselves; raises UnknownOption for one that is no field of the configuration."""
    names = {field.name for field in fields(kind)} - {"group"}
    by_java = {
        str(field.metadata["java"]).lower(): field.name for field in fields(kind) if "java" in field.metadata
    }
    for name in options:
        if name not in names:
            if (why := _OF_CLOUDS.get(name.lower().replace("_", "").replace("-", ""))) is not None:
                raise UnknownOption(f"{name}= is an option of a cloud's RocketMQ, {why}: leave it out")
            near = by_java.get(name.lower()) or next(iter(get_close_matches(name, names, 1)), None)
            advice = f": did you mean {near}=?" if near else ": docs/reference.md lists them all"
            what = kind.__name__.removesuffix("Config").lower()
            raise UnknownOption(f"{name}= is no option of a {what}{advice}")
    return options


def check_types(config: Any) -> None:
    """Raise ConfigError for the first field of a dataclass that holds what its annotation does not allow."""
    for field in fields(config):
        value = getattr(config, field.name)
        kinds = _kinds(field)
        if not any(_fits(value, kind) for kind in kinds):
            wanted = " or ".join(_name(kind) for kind in kinds if kind is not NoneType)
            shown = f"a {type(value).__name__}" if "secret" in field.name else repr(value)
            raise ConfigError(f"{field.name} is {shown}: it must be {wanted}")


def _kinds(field: Field[Any]) -> tuple[Any, ...]:
    # Sequence[str] has arguments too, but is one kind.
    return (field.type,) if get_origin(field.type) is Sequence else get_args(field.type) or (field.type,)


def _fits(value: object, kind: Any) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if get_origin(kind) is not None:
        (item,) = get_args(kind)
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str | bytes)
            and all(isinstance(each, item) for each in value)
        )
    return isinstance(value, kind)


def _name(kind: Any) -> str:
    if get_origin(kind) is not None:
        (item,) = get_args(kind)
        return "a list of texts" if item is str else f"a list of {item.__name__}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"a {kind.__name__}"
    names = {float: "a finite number", int: "a whole number", bool: "True or False", str: "a text"}
    return names.get(kind, getattr(kind, "__name__", str(kind)))

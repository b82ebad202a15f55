"""Settings that change while a server runs: new values from RocketMQ's keys, and the file with just those changed.

Java takes any key and any text. Here a change is all or nothing: every key is known and every value fits, or a
ConfigError names the one that does not, and nothing has changed.
"""

from collections.abc import Mapping
from typing import TypeVar

from rocketeer.config.keys import ConfigKey, find_key, nearest_key
from rocketeer.config.properties import entry_spans, properties_text
from rocketeer.config.reading import ValueReader
from rocketeer.config.settings import ServerRole
from rocketeer.config.values import BrokerConfig, NamesrvConfig, ServerConfig, StoreConfig
from rocketeer.errors import ConfigError

C = TypeVar("C", BrokerConfig, StoreConfig, NamesrvConfig, ServerConfig)


def check_change(key: str, text: str, role: ServerRole) -> ConfigKey:
    """The key; ConfigError if it is nobody's, or for a value that RocketMQ itself could not take for it."""
    known = find_key(key, role.classes)
    if known is None:
        meant = nearest_key(key, role.classes)
        raise ConfigError(f"unknown key {key}" + (f"; did you mean {meant}?" if meant else ""))
    if not known.accepts(text):
        raise ConfigError(f"{key}={text}: expected {known.expected}")
    return known


def with_changes(config: C, changes: Mapping[str, str], role: ServerRole) -> C:
    """The config with the fields of these keys changed; keys of other configs are passed over."""
    return ValueReader(role).changed(config, changes)


def changed_text(text: str, changes: Mapping[str, str]) -> str:
    """A .properties text in which these keys have new values; comments, order and all else stay as they are.

    >>> changed_text("# mine\\nbrokerName=a\\nx = 1\\n", {"x": "2", "y": "3"})
    '# mine\\nbrokerName=a\\nx=2\\ny=3\\n'
    """
    lines = text.splitlines(keepends=True)
    left = dict(changes)
    for key, first, end in reversed(entry_spans(text)):
        if key in changes:  # of a key that stands there twice the last one counts; the others go
            lines[first:end] = [properties_text({key: left.pop(key)})] if key in left else []
    if lines and left and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\n"
    return "".join(lines) + properties_text(left)

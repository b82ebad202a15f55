"""Settings as a .properties text: of brokers (25, 26) and name servers (318, 319)."""

from collections.abc import Mapping

from rocketeer.config.properties import parse_properties, properties_text
from rocketeer.errors import ConfigError


def encode_settings(properties: Mapping[str, str]) -> bytes:
    return properties_text(properties).encode()


def decode_settings(body: bytes) -> dict[str, str]:
    """The keys and values; raises ConfigError for what is no such text."""
    try:
        return {entry.key: entry.value.rstrip() for entry in parse_properties(body.decode())}
    except UnicodeDecodeError:
        raise ConfigError("the properties are not UTF-8 text") from None

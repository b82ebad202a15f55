"""Settings on a command line, as RocketMQ's documents write them: words in, entries as of a file out."""

from collections.abc import Iterable
from typing import Final

from rocketeer.config.properties import PropertyEntry
from rocketeer.errors import ConfigError

ON_COMMAND_LINE: Final = -1
"""The line number of an entry that stands in no file."""


def parse_words(words: Iterable[str]) -> list[PropertyEntry]:
    """The entries of words such as `autoCreateTopicEnable=true`, `--listenPort 9876` or `--listenPort=9876`.

    >>> [(entry.key, entry.value) for entry in parse_words(["brokerName=a", "--listenPort", "9876"])]
    [('brokerName', 'a'), ('listenPort', '9876')]
    """
    entries = []
    rest = iter(words)
    for word in rest:
        key, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and key and not equals:
            value = next(rest, "")
            if not value or value.startswith("--"):
                raise ConfigError(f"command line: {word} has no value; write {word} VALUE")
        elif not equals or not key or key.startswith("-"):
            raise ConfigError(
                f"command line: {word!r} is no setting; write key=value or --key value, "
                "for example autoCreateTopicEnable=true"
            )
        entries.append(PropertyEntry(key, value, ON_COMMAND_LINE))
    return entries

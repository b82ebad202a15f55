"""Words that people are used to give RocketMQ's scripts for Java: `-Dname=value`, `-Xmx4g`, the variable JAVA_OPT.

What RocketMQ 4.9.8's servers read from system properties counts here as well. Everything else is for a virtual
machine that is not there: on the command line it is refused by name, in the variables it is named and left out.
"""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final

from typer.core import TyperCommand

from rocketeer.cli.error_output import say
from rocketeer.errors import ConfigError

VARIABLES: Final = ("JAVA_OPT", "JAVA_OPT_EXT")
"""What `runbroker.sh` and `runserver.sh`, and those of RocketMQ's images, pass on to Java."""
_OF_JAVA: Final = ("-D", "-X", "-server", "-client", "-javaagent:", "-agentlib:", "-verbose", "-ea")
_SHORT_OPTIONS: Final = "cnpmh"

AS_VARIABLE: Final = {"rocketmq.namesrv.addr": "NAMESRV_ADDR", "rocketmq.home.dir": "ROCKETMQ_HOME"}
"""System properties that RocketMQ takes before these variables; a file and the command line go before both."""


def _percent(value: str) -> str:
    try:
        return str(round(float(value) * 100))
    except (ValueError, OverflowError):
        raise ConfigError(f"{value!r} is no number; write a part of 1, for example 0.90") from None


AS_SETTING: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "tls.server.mode": ("tls.server.mode", str),
    "tls.config.file": ("tls.config.file", str),
    "rocketmq.broker.diskSpaceWarningLevelRatio": ("diskSpaceWarningLevelRatio", _percent),
    "rocketmq.broker.diskSpaceCleanForciblyRatio": ("diskSpaceCleanForciblyRatio", _percent),
}
"""System properties that are settings here, and how their values are written there."""


def is_known(word: str) -> bool:
    """Whether it is a system property that counts."""
    name = word.removeprefix("-D").partition("=")[0]
    return word.startswith("-D") and (name in AS_VARIABLE or name in AS_SETTING)


def without_java(words: Sequence[str], environment: MutableMapping[str, str] = os.environ) -> list[str]:
    """The words, with system properties as settings or in the environment. ConfigError for what means nothing."""
    return list(_translated(words, environment))


def _translated(words: Sequence[str], environment: MutableMapping[str, str]) -> Iterator[str]:
    for word in words:
        if is_known(word):
            name, _, value = word.removeprefix("-D").partition("=")
            if not value:
                raise ConfigError(f"command line: -D{name} has no value; write -D{name}=VALUE")
            if name in AS_VARIABLE:
                environment[AS_VARIABLE[name]] = value
                continue
            key, converted = AS_SETTING[name]
            try:
                yield f"{key}={converted(value)}"
            except ConfigError as error:
                raise ConfigError(f"command line: -D{name}: {error}") from None
        elif word.startswith(_OF_JAVA):
            raise ConfigError(
                f"command line: {_shown(word)} is an option of Java, and there is none here: leave it out"
                " (settings are written key=value)"
            )
        elif len(word) > 2 and word[0] == "-" and word[1] not in f"-{_SHORT_OPTIONS}":
            # Taken apart letter by letter it could be anything: -listenPort has an -n in it.
            raise ConfigError(f"command line: {word!r} is no setting; write key=value or --key value")
        else:
            yield word


def words_of_variables(environment: Mapping[str, str], program: str) -> list[str]:
    """The system properties of JAVA_OPT and JAVA_OPT_EXT that count; that the rest does not is said."""
    counts: list[str] = []
    for variable in VARIABLES:
        try:
            words = shlex.split(environment.get(variable, ""))
        except ValueError as error:
            raise ConfigError(f"environment variable {variable}: {error}") from None
        counts += filter(is_known, words)
        rest = [_shown(word) for word in words if not is_known(word)]
        if rest:
            say(f"{variable} is set, but there is no Java here: {' '.join(rest)} has no effect", program)
    return counts


def _shown(word: str) -> str:
    """Without its value, which may be a secret."""
    return word.partition("=")[0]


class SettingsCommand(TyperCommand):
    """A command whose other words are settings: `autoCreateTopicEnable=true`, `--listenPort 9876`, `-Dname=value`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, without_java(args))

"""From what was typed behind a command to the arguments of its function; what is wrong is said in one sentence."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rocketeer.cli.admin.declare import AdminCommand, Option, Parameter
from rocketeer.errors import ConfigError

NAMESERVER = Option("n", "namesrvAddr", "name server addresses: 'host:9876;host:9876' (or NAMESRV_ADDR)")
HELP = Option("h", "help", "show this and leave", flag=True)
JSON = Option("", "json", "print JSON", flag=True)
YES = Option("", "yes", "do not ask before something is destroyed", flag=True)
PLAIN = Option("", "plain", "print as RocketMQ's tool does, on a terminal too", flag=True)
TIMEOUT = Option("", "timeout", "seconds to wait for each answer (5)")
INTERVAL = Option("i", "interval", "go on, every so many seconds")
ROUNDS = Option("", "rounds", "leave after so many rounds")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The function's arguments, and what every command takes."""

    values: dict[str, Any]
    nameserver: str | None = None
    help: bool = False
    json: bool = False
    yes: bool = False
    plain: bool = False
    timeout_s: float = 5.0
    interval_s: float | None = None
    rounds: int | None = None


def common_options(command: AdminCommand) -> tuple[Option, ...]:
    """What the command takes beside its own options."""
    own = {each.option.short for each in command.parameters}
    # One command of 4.9.8 (deleteExpiredCommitLog) has -n as an option of its own: it is the same.
    options = [NAMESERVER, HELP, JSON, PLAIN, TIMEOUT]
    if command.danger is not None:
        options.append(YES)
    if command.watch is not None:
        interval = INTERVAL if "i" not in own else Option("", "interval", INTERVAL.help)
        options += [interval, ROUNDS]
    return tuple(options)


def parse(command: AdminCommand, words: Sequence[str]) -> Parsed:
    """Raises ConfigError naming the option that cannot be used."""
    given = _split(command, words)
    if HELP.long in given:
        return Parsed({}, help=True)
    values: dict[str, Any] = {}
    for parameter in command.parameters:
        option = parameter.option
        if option.long in given:
            values[parameter.name] = _value(parameter, given[option.long])
        elif not parameter.required:
            values[parameter.name] = parameter.default
    _check_missing(command, values)
    interval = _number(given, INTERVAL.long, float)
    return Parsed(
        values,
        nameserver=given.get(NAMESERVER.long),
        json=JSON.long in given,
        yes=YES.long in given,
        plain=PLAIN.long in given,
        timeout_s=_number(given, TIMEOUT.long, float) or 5.0,
        interval_s=interval if interval is not None else (command.watch.every_s if command.watch else None),
        rounds=_number(given, ROUNDS.long, int),
    )


def _split(command: AdminCommand, words: Sequence[str]) -> dict[str, str]:
    """The texts by the options' long names."""
    by_name: dict[str, Option] = {}
    for known in (*common_options(command), *(each.option for each in command.parameters)):
        by_name[f"--{known.long}"] = known
        if known.short:
            by_name[f"-{known.short}"] = known
    given: dict[str, str] = {}
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        name, equals, value = word.partition("=")
        option: Option | None = by_name.get(word) or (by_name.get(name) if word.startswith("--") else None)
        if option is None and len(word) > 2 and word[:2] in by_name and not word.startswith("--"):
            option, equals, value = by_name[word[:2]], "=", word[2:]  # -tTopic
        if option is None:
            raise ConfigError(_unknown(command, word, by_name))
        if option.flag:
            given[option.long] = "true"
        elif equals and by_name.get(word) is None:
            given[option.long] = value
        elif waiting:
            given[option.long] = waiting.pop()
        else:
            raise ConfigError(f"{command.name}: {word} needs a value ({option.help})")
    return given


def _unknown(command: AdminCommand, word: str, by_name: dict[str, Option]) -> str:
    near = difflib.get_close_matches(word, by_name, n=1)
    meant = f"; did you mean {near[0]}?" if near else f"; see mqadmin help {command.name}"
    what = "has no option" if word.startswith("-") else "takes options only, not"
    return f"{command.name} {what} {word!r}{meant}"


def _check_missing(command: AdminCommand, values: dict[str, Any]) -> None:
    for parameter in command.parameters:
        if parameter.name not in values:
            raise ConfigError(f"{command.name} needs {_names(parameter.option)} ({parameter.option.help})")
    for group in command.one_of:
        if all(values.get(name) is None for name in group):
            options = [each.option for each in command.parameters if each.name in group]
            raise ConfigError(f"{command.name} needs " + " or ".join(_names(option) for option in options))


def _names(option: Option) -> str:
    return f"-{option.short} or --{option.long}" if option.short else f"--{option.long}"


def _value(parameter: Parameter, text: str) -> Any:
    option = parameter.option
    text = text.strip()
    if option.choices and text not in option.choices:
        raise ConfigError(f"--{option.long} {text!r}: one of {', '.join(option.choices)}")
    try:
        if option.parse is not None:
            return option.parse(text)
        if parameter.kind is bool:
            return _parse_bool(text)
        return parameter.kind(text)
    except ValueError as error:
        kinds = {int: "a whole number", float: "a number", bool: "true or false"}
        raise ConfigError(f"--{option.long} {text!r}: {kinds.get(parameter.kind) or error}") from None


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _number(given: dict[str, str], name: str, kind: type) -> Any:
    if name not in given:
        return None
    try:
        number = kind(given[name])
    except ValueError:
        number = 0
    if not number > 0:
        raise ConfigError(f"--{name} {given[name]!r}: a number above 0")
    return number

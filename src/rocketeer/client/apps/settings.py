"""An app's options from a file, profiles and the environment, and what counts more than what.

    nameserver: 127.0.0.1:9876          any option of consumers, for all listeners
    concurrency: 8
    group: billing                      what App(...) takes beside them
    producer_group: shop
    producer:                           options of app.producer
      send_timeout_s: 5
    groups:                             options of one group's listeners
      billing:
        concurrency: 2
    profiles:                           all of the above again, for `--profile prod`
      prod:
        nameserver: mq-1:9876;mq-2:9876

In the environment the same names stand in capitals behind ROCKETEER_APP_, levels are joined by two underscores:
ROCKETEER_APP_CONCURRENCY=4, ROCKETEER_APP_PRODUCER__SEND_TIMEOUT_S=5, ROCKETEER_APP_GROUPS__billing__CONCURRENCY=2.
ROCKETEER_APP_CONFIG and ROCKETEER_APP_PROFILE stand for `--config` and `--profile`.

What counts: the environment more than the file's profiles, those more than the rest of the file, that more than what
the code says; and what is said of one group more than what is said of all.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_origin

from rocketeer.client.core.config import ConsumerConfig, ProducerConfig
from rocketeer.client.core.option_types import known_options
from rocketeer.errors import ConfigError
from rocketeer.extras import needed
from rocketeer.security.tls import TlsConfig

PREFIX: Final = "ROCKETEER_APP_"
_LEVEL: Final = "__"
_OF_THE_PROGRAM: Final = frozenset({"CONFIG", "PROFILE"})
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_NAMES: Final = ("group", "producer_group")


@dataclass(slots=True)
class AppSettings:
    """What one source says; `options` are a consumer's, the values already of the right kind."""

    options: dict[str, Any] = field(default_factory=dict)
    producer: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    group: str | None = None
    producer_group: str | None = None

    def update(self, more: "AppSettings") -> None:
        """Overwrite settings by those of `more`."""
        self.options |= more.options
        self.producer |= more.producer
        for name, options in more.groups.items():
            self.groups[name] = {**self.groups.get(name, {}), **options}
        self.group = more.group or self.group
        self.producer_group = more.producer_group or self.producer_group


def parse_settings(given: Mapping[str, Any], where: str = "the settings") -> AppSettings:
    """From a mapping as in the file; raises ConfigError with the place and the name that is wrong."""
    found = AppSettings()
    for name, value in given.items():
        if name in _NAMES:
            setattr(found, name, _text(value, f"{where}: {name}"))
        elif name == "producer":
            found.producer = _options(ProducerConfig, value, f"{where}: producer")
        elif name == "groups":
            for group, options in _mapping(value, f"{where}: groups").items():
                found.groups[str(group)] = _options(ConsumerConfig, options, f"{where}: groups: {group}")
        else:
            found.options |= _options(ConsumerConfig, {name: value}, where)
    return found


def read_file(path: Path, profiles: tuple[str, ...] = ()) -> AppSettings:
    """A YAML file's settings, those of the profiles on top in their order; raises ConfigError."""
    yaml = needed("yaml", "a configuration file of an app", "cli")
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    content = dict(_mapping({} if content is None else content, f"{path}"))
    known = _mapping(content.pop("profiles", {}) or {}, f"{path}: profiles")
    found = parse_settings(content, f"{path}")
    for name in profiles:
        if name not in known:
            there = f"it has {', '.join(map(str, known))}" if known else "it has none"
            raise ConfigError(f"{path} has no profile {name!r}: {there}")
        found.update(
            parse_settings(_mapping(known[name], f"{path}: profiles: {name}"), f"{path}: profiles: {name}")
        )
    return found


def read_environment(environment: Mapping[str, str]) -> AppSettings:
    """Settings of the variables that begin with ROCKETEER_APP_; raises ConfigError for one that is no option."""
    found = AppSettings()
    for variable in sorted(environment):
        rest = variable.removeprefix(PREFIX)
        if rest == variable or rest in _OF_THE_PROGRAM:
            continue
        section, *names = rest.split(_LEVEL)
        value: Any = environment[variable]
        for name in reversed(names):
            value = {name if name is not names[-1] else name.lower(): value}
        found.update(parse_settings({section.lower(): value}, variable))
    return found


def app_settings(
    config: Path | None, profiles: tuple[str, ...], environment: Mapping[str, str]
) -> AppSettings:
    """All that a shell says of an app; command-line arguments count more than the environment's names of them."""
    path = config or (Path(environment[f"{PREFIX}CONFIG"]) if environment.get(f"{PREFIX}CONFIG") else None)
    asked = profiles or tuple(filter(None, environment.get(f"{PREFIX}PROFILE", "").split(",")))
    if asked and path is None:
        raise ConfigError(f"profile {', '.join(asked)}: profiles stand in a file, name it with --config")
    found = AppSettings() if path is None else read_file(path, asked)
    found.update(read_environment(environment))
    return found


# --- values ----------------------------------------------------------------------------------


def _options(kind: Any, given: Any, where: str) -> dict[str, Any]:
    options = {str(name).replace("-", "_"): value for name, value in _mapping(given, where).items()}
    try:
        known_options(kind, options)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    by_name = {each.name: each for each in fields(kind)}
    return {name: _value(by_name[name], value, where) for name, value in options.items()}


def _value(of: Field[Any], value: Any, where: str) -> Any:
    """As the option's type has it: texts are read, everything else is checked when a client is made."""
    kinds = (
        (of.type,)
        if get_origin(of.type) is not None and not get_args(of.type)
        else get_args(of.type) or (of.type,)
    )
    if isinstance(value, Mapping) and TlsConfig in kinds:
        return _tls(value, f"{where}: {of.name}")
    if not isinstance(value, str):
        return value
    if str in kinds:
        return None if value == "" and NoneType in kinds else value
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Enum):
            return _member(kind, value, f"{where}: {of.name}")
    try:
        if bool in kinds:
            return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}[value.lower()]
        if int in kinds:
            return int(value)
        if float in kinds:
            return float(value)
    except (ValueError, KeyError):
        wanted = "true or false" if bool in kinds else "a number"
        raise ConfigError(f"{where}: {of.name} is {value!r}: it must be {wanted}") from None
    return value


def _member(kind: type[Enum], value: str, where: str) -> Enum:
    for each in kind:
        if value.upper() in (each.name.upper(), str(each.value).upper()):
            return each
    raise ConfigError(f"{where} is {value!r}: one of {', '.join(each.name for each in kind)}")


def _tls(given: Mapping[str, Any], where: str) -> TlsConfig:
    known = {each.name: each for each in fields(TlsConfig)}
    for name in given:
        if name not in known:
            raise ConfigError(f"{where}: {name} is no setting of TLS: {', '.join(known)}")
    files = {name: Path(given[name]) for name in ("cert", "key", "trust") if given.get(name)}
    return TlsConfig(**{**given, **files})


def _mapping(value: Any, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is {value!r:.80}: names with values are wanted there")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where} is {value!r:.80}: it must be a text")
    return value

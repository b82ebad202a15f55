"""How a command is declared: one function, whose arguments are its options.

    @command("topicStatus", Subject.TOPICS, "What each queue of a topic holds")
    def topic_status(admin: Admin, topic: Topic) -> Output:
        ...

`Topic` is `Annotated[str, Option("t", "topic", "name of the topic")]`. An argument without a default is required;
its type says what is read: a text, a whole number, true or false. `COMMANDS` is the list of what the tool can do.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from rocketeer.cli.admin.output import Output

F = TypeVar("F", bound=Callable[..., Output])


class Subject(Enum):
    """What a command is about; the tool lists its commands under these."""

    CLUSTERS = "Clusters and brokers"
    TOPICS = "Topics"
    GROUPS = "Consumer groups"
    OFFSETS = "Offsets"
    PRODUCERS = "Producers"
    MESSAGES = "Messages"
    NAMESERVERS = "Name servers"
    ACCESS = "Access"
    FILES = "Export"


@dataclass(frozen=True, slots=True)
class Option:
    """One option by its short and long name, as RocketMQ has it; `flag`: it stands alone, without a value."""

    short: str
    long: str
    help: str
    flag: bool = False
    parse: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of a command's function and the option that fills it."""

    name: str
    option: Option
    kind: type
    required: bool
    default: Any


@dataclass(frozen=True, slots=True)
class Watch:
    """A command that can go on: every so many seconds, redrawn in place on a terminal.

    `every_s` None: once, unless an interval is asked for.
    """

    every_s: float | None = None


@dataclass(frozen=True, slots=True)
class AdminCommand:
    """One command; `danger` says in sentences what it will destroy, before anybody is asked for a yes."""

    name: str
    subject: Subject
    summary: str
    run: Callable[..., Output]
    parameters: tuple[Parameter, ...]
    danger: Callable[..., Sequence[str]] | None = None
    watch: Watch | None = None
    one_of: tuple[tuple[str, ...], ...] = ()
    """Groups of arguments of which exactly one is to be given; the first wins where 4.9.8 takes both."""


COMMANDS: dict[str, AdminCommand] = {}
ALIASES: dict[str, str] = {}


def command(
    name: str,
    subject: Subject,
    summary: str,
    *,
    aliases: tuple[str, ...] = (),
    danger: Callable[..., Sequence[str]] | None = None,
    watch: Watch | None = None,
    one_of: tuple[tuple[str, ...], ...] = (),
) -> Callable[[F], F]:
    """Put the function into the list of commands."""

    def declare(run: F) -> F:
        assert name not in COMMANDS, f"two commands are called {name}"
        COMMANDS[name] = AdminCommand(name, subject, summary, run, _parameters(run), danger, watch, one_of)
        ALIASES.update(dict.fromkeys(aliases, name))
        return run

    return declare


def _parameters(run: Callable[..., Output]) -> tuple[Parameter, ...]:
    hints = get_type_hints(run, include_extras=True)
    found: list[Parameter] = []
    for name, argument in list(inspect.signature(run).parameters.items())[1:]:  # the first is the Admin
        kind, option = _kind_and_option(hints[name])
        required = argument.default is inspect.Parameter.empty
        found.append(Parameter(name, option, kind, required, None if required else argument.default))
    shorts = [each.option.short for each in found]
    assert len(set(shorts)) == len(shorts), f"{run.__name__}: two options with one short name in {shorts}"
    return tuple(found)


def _kind_and_option(hint: Any) -> tuple[type, Option]:
    """`Annotated[int, Option(...)]`, or that `| None`."""
    if get_origin(hint) is None or not hasattr(hint, "__metadata__"):
        hint = next(each for each in get_args(hint) if hasattr(each, "__metadata__"))
    base, option = get_args(hint)[:2]
    assert isinstance(option, Option)
    kinds = [each for each in (get_args(base) or (base,)) if each is not type(None)]
    return kinds[0], option

"""What was declared with decorators, before anything runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rocketeer.client.core.allocate import AVERAGELY, Strategy
from rocketeer.client.core.middleware import Middleware
from rocketeer.client.core.retry_policy import RetryPolicy
from rocketeer.errors import ConfigError

APP_GROUP: Final = ""
"""Stands for the app's group, which may be configured later."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One listener of one topic."""

    topic: str
    function: Callable[..., Any]
    retry: RetryPolicy
    middlewares: tuple[Middleware, ...] = ()
    tags: str = "*"
    sql: str | None = None


@dataclass(slots=True)
class DeclaredGroup:
    """One consumer: the listeners of a group on several topics share it, and so must its settings."""

    orderly: bool = False
    strategy: Strategy = AVERAGELY
    options: dict[str, Any] = field(default_factory=dict)
    listeners: dict[str, Declared] = field(default_factory=dict)


@dataclass(slots=True)
class DeadLetters:
    """A handler of what a group gave up of a topic; without `group`: all groups of the app that listen to it."""

    declared: Declared
    group: str | None


def add_listener(
    groups: dict[str, DeclaredGroup], name: str, asked: DeclaredGroup, declared: Declared
) -> None:
    """Raises ConfigError for two listeners of a topic, and for two settings of a group."""
    known = groups.get(name, asked)
    before, now = (
        {"orderly": each.orderly, "strategy": each.strategy, **each.options} for each in (known, asked)
    )
    if before != now:
        raise ConfigError(f"group {name!r} has listeners with different settings: {before}, {now}")
    if declared.topic in known.listeners:
        raise ConfigError(
            f"group {name!r} has two listeners for topic {declared.topic!r}: one group, one listener"
        )
    known.listeners[declared.topic] = declared
    groups[name] = known


def named_groups(groups: dict[str, DeclaredGroup], app_group: str | None) -> dict[str, DeclaredGroup]:
    """The listeners, with the app's group where they name none; raises ConfigError when the app has none either."""
    found: dict[str, DeclaredGroup] = {}
    for name, group in groups.items():
        for declared in group.listeners.values():
            real = name or app_group
            if real is None:
                raise ConfigError(
                    f"the listener of topic {declared.topic!r} has no group: give group=, or App(group=) for all"
                )
            add_listener(found, real, DeclaredGroup(group.orderly, group.strategy, group.options), declared)
    return found


def groups_of(
    handlers: Sequence[DeadLetters], groups: dict[str, DeclaredGroup]
) -> dict[str, dict[str, Declared]]:
    """By group whose dead letters they are, by topic; raises ConfigError for those nobody would have."""
    found: dict[str, dict[str, Declared]] = {}
    for each in handlers:
        topic = each.declared.topic
        names = (
            [each.group]
            if each.group
            else [name for name, group in groups.items() if topic in group.listeners]
        )
        if not names:
            raise ConfigError(
                f"dead letters of topic {topic!r}: the app has no listener of it, so name the group= whose they are"
            )
        for name in names:
            if found.setdefault(name, {}).setdefault(topic, each.declared) is not each.declared:
                raise ConfigError(f"the dead letters of topic {topic!r} and group {name!r} have two handlers")
    return found

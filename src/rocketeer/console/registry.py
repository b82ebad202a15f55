"""Pages and actions as values: each is one declaration that serves HTML under /c/CLUSTER and JSON under /api/CLUSTER.

A view loads data and a template shows it; an action changes something and says what it did. The OpenAPI page is
made from the same declarations.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocketeer.console.users import Role

if TYPE_CHECKING:
    from rocketeer.console.visit import Visit


@dataclass(frozen=True)
class Param:
    """A field of a query or a form; `kind` is text, number, flag, time or choice."""

    name: str
    label: str
    kind: str = "text"
    default: str = ""
    required: bool = False
    choices: Sequence[str] = ()
    help: str = ""


@dataclass(frozen=True)
class View:
    """`load` gives what the template and the API's answer hold."""

    path: str
    name: str
    summary: str
    load: Callable[["Visit"], Awaitable[Mapping[str, Any]]]
    template: str
    query: Sequence[Param] = ()
    role: Role = Role.VIEWER
    nav: str = ""
    """The entry of the navigation it belongs to."""


@dataclass(frozen=True)
class Outcome:
    """What an action did, in one sentence; where the browser goes then; failures of single brokers."""

    text: str
    goto: str = ""
    failures: Sequence[str] = ()


@dataclass(frozen=True)
class Action:
    """`warning` says what it will do before it is done; a dangerous one is confirmed."""

    path: str
    name: str
    summary: str
    run: Callable[["Visit"], Awaitable[Outcome]]
    fields: Sequence[Param] = ()
    role: Role = Role.OPERATOR
    warning: str = ""
    dangerous: bool = False


@dataclass
class Registry:
    """All of a console; modules under pages/ add themselves."""

    views: list[View] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def action(self, name: str) -> Action:
        return next(action for action in self.actions if action.name == name)

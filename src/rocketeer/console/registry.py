"""Pages, downloads and actions as values: each is one declaration that serves /c/CLUSTER and JSON under /api/CLUSTER.

A view loads data and a template shows it; a download is a file; an action changes something and says what it did.
The navigation and the description of the API are made from the same declarations.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocketeer.console.i18n import TranslatableText
from rocketeer.console.users import UserRole

if TYPE_CHECKING:
    from rocketeer.console.page_request import PageRequest


@dataclass(frozen=True)
class Param:
    """A field of a query or a form; `kind` is text, long, secret, number, flag, time, choice or many."""

    name: str
    label: str
    kind: str = "text"
    default: str = ""
    required: bool = False
    choices: Sequence[str] = ()


@dataclass(frozen=True)
class PageView:
    """`load` gives what the template and the API's answer hold."""

    path: str
    name: str
    summary: str
    load: Callable[["PageRequest"], Awaitable[Mapping[str, Any]]]
    template: str
    query: Sequence[Param] = ()
    role: UserRole = UserRole.VIEWER
    nav: str = ""
    """The entry of the navigation it belongs to."""


@dataclass(frozen=True)
class Attachment:
    """A file to save: its name and its pieces. `shown_under`: not saved but shown, under this policy."""

    filename: str
    media_type: str
    pieces: AsyncIterator[bytes]
    shown_under: str = ""


@dataclass(frozen=True)
class Download:
    """`open` finds out whether there is such a file; its pieces come while they are sent."""

    path: str
    name: str
    summary: str
    open: Callable[["PageRequest"], Awaitable[Attachment]]
    query: Sequence[Param] = ()
    role: UserRole = UserRole.VIEWER


@dataclass(frozen=True)
class ActionResult:
    """What an action did, in one sentence; where in the cluster the browser goes then; what brokers refused."""

    text: TranslatableText
    goto: str = ""
    failures: Sequence[object] = ()


@dataclass(frozen=True)
class Action:
    """`warning` says what it will do before it is done, with the names in its path.

    A dangerous one is confirmed on a page of its own, where `preview` tells what it means here and now.
    """

    path: str
    name: str
    summary: str
    run: Callable[["PageRequest"], Awaitable[ActionResult]]
    fields: Sequence[Param] = ()
    role: UserRole = UserRole.OPERATOR
    warning: str = ""
    dangerous: bool = False
    preview: Callable[["PageRequest"], Awaitable[Sequence[TranslatableText]]] | None = None

    def hides(self, name: str) -> bool:
        """Whether a field's value must not be written down: secrets, bodies of messages."""
        return any(param.name == name and param.kind in ("secret", "long") for param in self.fields)


@dataclass
class PageRegistry:
    """All of a console; modules under pages/ add themselves."""

    views: list[PageView] = field(default_factory=list)
    downloads: list[Download] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def action(self, name: str) -> Action:
        return next(action for action in self.actions if action.name == name)

    def nav(self, role: UserRole) -> list[tuple[str, str]]:
        """(entry, path) in the order of the pages, without those the role may not see."""
        entries: dict[str, str] = {}
        for view in self.views:
            if view.nav and "{" not in view.path and view.role <= role:
                entries.setdefault(view.nav, view.path)
        return list(entries.items())

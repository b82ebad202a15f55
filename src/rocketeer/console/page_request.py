"""A request as pages see it: the cluster, the fields that were given, who asks."""

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice
from typing import Any, Final, TypeVar

from rocketeer.console.cluster_view import ClusterView
from rocketeer.console.errors import BadField
from rocketeer.console.i18n import text
from rocketeer.console.users import User


@dataclass(frozen=True)
class PageRequest:
    """What pages are loaded and actions run with."""

    cluster: ClusterView
    path: Mapping[str, str]
    fields: Mapping[str, str]
    user: User

    def text(self, name: str, default: str = "") -> str:
        return self.fields.get(name, default).strip()

    def needed(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise BadField(text("{field} is missing", field=name))
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        given = self.text(name)
        if not given:
            return default
        try:
            value = int(given)
        except ValueError:
            raise BadField(
                text("{field} is {value}, not a whole number", field=name, value=repr(given[:40]))
            ) from None
        if not least <= value <= most:
            raise BadField(
                text(
                    "{field} is {value}: it must be from {least} to {most}",
                    field=name, value=value, least=least, most=most,
                )
            )  # fmt: skip
        return value

    def many(self, name: str) -> list[str]:
        """The values of a field that may be given more than once."""
        return [value for value in self.text(name).split(",") if value]

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "on", "yes", "1")

    def time_ms(self, name: str, default_ms: int) -> int:
        """As a browser's date field has it (UTC), or in ms since 1970."""
        given = self.text(name)
        if not given:
            return default_ms
        if given.isascii() and given.isdigit() and len(given) <= 18:
            return int(given)
        try:
            moment = datetime.datetime.fromisoformat(given)
        except ValueError:
            raise BadField(
                text(
                    "{field} is {value}, not a time such as 2026-01-31T12:00",
                    field=name,
                    value=repr(given[:40]),
                )
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return int(moment.timestamp() * 1000)


PAGE_ROWS: Final = 50
SORTED_AT_ONCE: Final = 2_000
T = TypeVar("T")


@dataclass(frozen=True)
class Listing:
    """A part of a list that was searched, sorted and paged on the server."""

    rows: list[Any]
    total: int
    page: int
    pages: int
    search: str
    sort: str
    descending: bool


def listing(
    request: PageRequest,
    rows: list[Any],
    *,
    search_in: Any,
    sorts: Mapping[str, Any],
    default_sort: str,
) -> Listing:
    """`search_in` gives the text of a row to look in; `sorts` the keys to sort by. None sorts last.

    Not on the loop: there may be a hundred thousand rows.
    """
    search = request.text("q")
    if search:
        rows = [row for row in rows if search.lower() in search_in(row).lower()]
    sort = request.text("sort", default_sort)
    if sort.lstrip("-") not in sorts:
        sort = default_sort
    descending = sort.startswith("-")
    key = sorts[sort.lstrip("-")]
    known = [row for row in rows if key(row) is not None]
    unknown = [row for row in rows if key(row) is None]
    pages = max(1, -(-len(rows) // PAGE_ROWS))
    page = min(request.number("page", 1, least=1), pages)
    start = (page - 1) * PAGE_ROWS
    ordered = chain(in_order(known, key, descending=descending), unknown)
    return Listing(
        list(islice(ordered, start, start + PAGE_ROWS)),
        len(rows),
        page,
        pages,
        search,
        sort.lstrip("-"),
        descending,
    )


def in_order(rows: list[T], key: Callable[[T], Any], *, descending: bool = False) -> Iterator[T]:
    """As `sorted` has them: that is a single step of Python, for which the loop waits also when a thread takes it."""
    parts = [
        sorted(rows[start : start + SORTED_AT_ONCE], key=key, reverse=descending)
        for start in range(0, len(rows), SORTED_AT_ONCE)
    ]
    return merge(*parts, key=key, reverse=descending)

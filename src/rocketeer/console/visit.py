"""One request as pages see it: the cluster, the fields that were given, who asks, in which language."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocketeer.console.cluster_view import ClusterView
from rocketeer.console.i18n import Language
from rocketeer.console.users import User
from rocketeer.errors import RocketeerError


class BadField(RocketeerError):
    """A field of a form or a query that cannot be used."""


@dataclass(frozen=True)
class Visit:
    cluster: ClusterView
    path: Mapping[str, str]
    fields: Mapping[str, str]
    user: User
    language: Language

    def text(self, name: str, default: str = "") -> str:
        return self.fields.get(name, default).strip()

    def needed(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise BadField(f"{name} is missing")
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        text = self.text(name)
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            raise BadField(f"{name} is {text[:40]!r}, not a whole number") from None
        if not least <= value <= most:
            raise BadField(f"{name} is {value}: it must be from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "on", "yes", "1")

    def time_ms(self, name: str, default_ms: int) -> int:
        """As a browser's date field has it (UTC), or in ms since 1970."""
        text = self.text(name)
        if not text:
            return default_ms
        if text.isdigit():
            return int(text)
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise BadField(f"{name} is {text[:40]!r}, not a time such as 2026-01-31T12:00") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return int(moment.timestamp() * 1000)


PAGE_ROWS = 50


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
    visit: Visit,
    rows: list[Any],
    *,
    search_in: Any,
    sorts: Mapping[str, Any],
    default_sort: str,
    page_rows: int = PAGE_ROWS,
) -> Listing:
    """`search_in` gives the text of a row to look in; `sorts` the keys to sort by. None sorts last."""
    search = visit.text("q")
    if search:
        rows = [row for row in rows if search.lower() in search_in(row).lower()]
    sort = visit.text("sort", default_sort)
    if sort.lstrip("-") not in sorts:
        sort = default_sort
    descending = sort.startswith("-")
    key = sorts[sort.lstrip("-")]
    known = [row for row in rows if key(row) is not None]
    unknown = [row for row in rows if key(row) is None]
    ordered = sorted(known, key=key, reverse=descending) + unknown
    pages = max(1, -(-len(ordered) // page_rows))
    page = min(visit.number("page", 1, least=1), pages)
    start = (page - 1) * page_rows
    return Listing(
        ordered[start : start + page_rows], len(ordered), page, pages, search, sort.lstrip("-"), descending
    )

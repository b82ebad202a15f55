"""Templates and how they show values: numbers, times, sizes; what was not answered is a dash, never 0."""

import datetime
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from rocketeer.protocol.versions import version_name

UNKNOWN = "\u2013"


def make_templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("rocketeer.console", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=number, size=size, time=time, ago=ago, percent=percent, rate=rate, segment=segment,
        fill=fill, field_time=field_time, version=version_name,
    )  # fmt: skip
    environment.globals["query"] = query
    return environment


def number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}"


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value * 100:.1f} %"


def size(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TB"


def time(ms: int | None) -> str:
    if ms is None or ms <= 0:
        return UNKNOWN
    try:
        moment = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    except (OverflowError, ValueError):
        return str(ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03d}Z"


def ago(seconds: float | None) -> str:
    """A duration in the two largest units."""
    if seconds is None:
        return UNKNOWN
    seconds = int(seconds)
    for span, unit, small, small_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= span:
            return f"{seconds // span} {unit} {seconds % span // small} {small_unit}"
    return f"{seconds} s"


def segment(value: str) -> str:
    """A name as one part of a URL's path."""
    return quote(value, safe="")


def fill(path: str, values: Mapping[str, str]) -> str:
    """The path of an action with its names: `/topics/{topic}/send`."""
    return re.sub(r"{(\w+)(:\w+)?}", lambda found: segment(str(values[found[1]])), path)


def field_time(ms: int | None) -> str:
    """As a browser's field for dates has it; UTC."""
    if ms is None or not 0 < ms < 253_402_300_800_000:
        return ""
    return datetime.datetime.fromtimestamp(ms // 1000, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def query(current: str, **changes: Any) -> str:
    """A link to the same page with other parameters: state lives in the URL."""
    parts = urlsplit(current)
    fields = dict(parse_qsl(parts.query))
    fields.update({name: str(value) for name, value in changes.items()})
    kept = {name: value for name, value in fields.items() if value != ""}
    return parts.path + (f"?{urlencode(kept)}" if kept else "")

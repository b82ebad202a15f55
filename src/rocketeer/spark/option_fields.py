"""Options as fields of a frozen dataclass: each has the name a user writes and a reader of its text."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, field, fields
from difflib import get_close_matches
from typing import Any

from rocketeer.errors import ConfigError


def option(name: str, parse: Callable[[str, str], Any], default: Any = None, *, shown: bool = True) -> Any:
    """A field of the class of options; `parse` is given the name and the text. A secret is never shown."""
    return field(default=default, repr=shown, metadata={"name": name, "parse": parse})


def option_names(options: type) -> list[str]:
    return [part.metadata["name"] for part in fields(options)]


def parse_texts(
    options: type, given: Mapping[str, str], whose: str, *, ignored: Collection[str] = ()
) -> dict[str, Any]:
    """The values of what was given, by field; ConfigError names the first that is unknown or unreadable.

    Case does not matter, as everywhere in Spark; `ignored` names, in lower case, are nobody's.
    """
    known: dict[str, Field[Any]] = {part.metadata["name"].lower(): part for part in fields(options)}
    values: dict[str, Any] = {}
    for name, text in given.items():
        part = known.get(name.lower())
        if part is not None:
            values[part.name] = part.metadata["parse"](part.metadata["name"], text)
        elif name.lower() not in ignored:
            near = get_close_matches(name.lower(), known, n=1)
            meant = f" (did you mean {known[near[0]].metadata['name']}?)" if near else ""
            names = ", ".join(option_names(options))
            raise ConfigError(f"option {name!r} is unknown to the {whose}{meant}; it knows {names}")
    return values

"""Every typed header there is."""

import pkgutil
from importlib import import_module

from rocketeer.protocol import headers
from rocketeer.protocol.headers.base import Header


def header_kinds() -> list[type[Header]]:
    modules = [
        import_module(f"{headers.__name__}.{each.name}") for each in pkgutil.iter_modules(headers.__path__)
    ]
    kinds = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Header) and kind is not Header
    }
    return sorted(kinds, key=lambda kind: kind.__name__)

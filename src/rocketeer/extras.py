"""Which extra brings a library that an installation may lack: `pip install rocketeer` alone is the clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

EXTRAS: Final = {
    "lz4": "compression",
    "zstandard": "compression",
    "rich": "cli",
    "typer": "cli",
    "numpy": "server",
    "prometheus_client": "server",
    "uvloop": "server",
    "yaml": "server",
    "pyarrow": "spark",
    "pyspark": "spark",
}


class UsersImportFailed(ModuleNotFoundError):
    """A user's own module or function wants a library that is not there: no extra of ours is missing."""


@contextmanager
def users_code() -> Iterator[None]:
    """Where users' code is loaded or called: a library it lacks is raised as UsersImportFailed, from its error."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsersImportFailed(str(error), name=error.name, path=error.path) from error


def advice(what: str, error: ModuleNotFoundError) -> str | None:
    """The sentence that names the extra; None when the module is not one of an extra's, or a user's code wants it."""
    if isinstance(error, UsersImportFailed):
        return None
    library = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(library)
    return None if extra is None else f"{what} needs {library}: pip install 'rocketeer[{extra}]'"


def needed(library: str, what: str, extra: str) -> Any:
    """The library, which one part of an installation needs; the error names the extra that brings it."""
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != library.partition(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"{what} needs {library}: pip install 'rocketeer[{extra}]'", name=library
        ) from None

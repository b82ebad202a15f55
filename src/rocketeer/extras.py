"""Which extra brings a library that an installation may lack: `pip install rocketeer` alone is the clients."""

from typing import Final

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


def advice(what: str, error: ModuleNotFoundError) -> str | None:
    """The sentence that names the extra; None when the module is not one of an extra's."""
    library = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(library)
    return None if extra is None else f"{what} needs {library}: pip install 'rocketeer[{extra}]'"

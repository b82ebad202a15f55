"""Options for the JVM of a session, given in a way that prints nothing and leaves what users set in force."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""Spark's launcher puts these before all other options of a driver's JVM; of two that differ the last one counts."""


@contextmanager
def submit_options(*options: str) -> Iterator[None]:
    """A JVM that is started in the block has these options."""
    before = os.environ.get(SUBMIT_OPTIONS)
    ours = options_text(*options)
    os.environ[SUBMIT_OPTIONS] = f"{ours} {before}" if before else ours
    try:
        yield
    finally:
        if before is None:
            del os.environ[SUBMIT_OPTIONS]
        else:
            os.environ[SUBMIT_OPTIONS] = before


def options_text(*options: str) -> str:
    """As Spark's launcher reads them.

    >>> options_text("-Da=b", "-Dc=d e")
    '-Da=b "-Dc=d e"'
    """
    return " ".join(map(_quoted, options))


def _quoted(option: str) -> str:
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if any(c in option for c in " '\"\\\t") else option

"""Which PySpark is here, and what of ours needs a later one: said at import, and by who misses it."""

import re
import warnings
from typing import Final

import pyspark

from rocketeer.errors import ConfigError

OLDEST: Final = (4, 1)
NEWEST: Final = (4, 3)
"""The newest that was tried."""
LIMITS: Final = (4, 2)
"""From here on a stream is told where a batch begins when it is asked where it ends: without that, a broker that is
away at a restart would have its messages read twice."""


def running_version() -> tuple[int, int]:
    """Major and minor of PySpark.

    >>> running_version() >= (4, 1)
    True
    """
    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    assert found is not None, pyspark.__version__
    return int(found[1]), int(found[2])


HAS_LIMITS: Final = running_version() >= LIMITS
HAS_ROWS_WITH_PLANS: Final = LIMITS <= running_version() <= NEWEST
"""Rows of a stream's small batches can come with the plan: by a way that PySpark keeps for itself, so only where it
was tried."""


def check_version() -> None:
    """ImportError for a PySpark that is too old; a warning that says what this one lacks, or that nobody tried it."""
    here = running_version()
    if here < OLDEST:
        raise ImportError(
            f"PySpark {pyspark.__version__} is too old: rocketeer.spark needs {_text(OLDEST)} to {_text(NEWEST)}"
        )
    if here > NEWEST:
        warnings.warn(
            f"PySpark {pyspark.__version__} is newer than what rocketeer.spark was tried with ({_text(NEWEST)})",
            stacklevel=3,
        )
    elif not HAS_LIMITS:
        warnings.warn(f"{_LACKS}; batches and writing work", stacklevel=3)


def need_streams() -> None:
    """ConfigError where topics cannot be read as a stream."""
    if not HAS_LIMITS:
        raise ConfigError(_LACKS)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


_LACKS: Final = (
    f"PySpark {pyspark.__version__} cannot read topics as a stream: its Python streams do not say where a batch "
    f"begins, which came with {_text(LIMITS)}"
)

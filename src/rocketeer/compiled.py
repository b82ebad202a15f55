"""The one switch between compiled modules and their plain twins.

The compiled modules are built together where a C compiler was at hand at installation; without one, or with
`ROCKETEER_PLAIN=1` in the environment, the plain twins run. Whoever has both asks `COMPILED` and imports one of them:
a module that is missing although the others are there is an error (the checkout wants `make setup`), not a reason to
run slowly.
"""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final


def _is_built() -> bool:
    folder = Path(__file__).parent / "record"
    return any((folder / f"_walk{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


COMPILED: Final = os.environ.get("ROCKETEER_PLAIN", "") in ("", "0") and _is_built()

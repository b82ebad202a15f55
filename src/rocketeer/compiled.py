"""The one switch for compiled modules.

They are built together where a C compiler was at hand at installation; without one, or with `ROCKETEER_PLAIN=1` in
the environment, none of them runs. Whoever uses one asks `COMPILED`: a module that is missing although the others are
there is an error (the checkout wants `make setup`), not a reason to run slowly. What stands in for each:

| compiled | without it |
|---|---|
| all that have one | their plain twin, named alike with `_plain` behind: the same names, the same answers |
| `security/_signing` | `security/signature.py` (hmac) |
| `store/_copied_run`, `store/_key_columns` | `store/log_bytes_plain.py`, message by message |
| `store/_page_prefault` | nothing: pages come when they are written |
| `engine/` | the general way of a send |
| `remoting/_stream`, `remoting/_poller` | asyncio's transports, also where the kernel is not Linux |
| `spark/sink/_row_packer` | `spark/sink/requests.py`, row by row |
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final


def _is_built() -> bool:
    folder = Path(__file__).parent / "record"
    return any((folder / f"_walk{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


COMPILED: Final = os.environ.get("ROCKETEER_PLAIN", "") in ("", "0") and _is_built()
COMPILED_STREAMS: Final = COMPILED and sys.platform == "linux"
"""Whether connections use compiled streams, which wait for sockets by epoll."""

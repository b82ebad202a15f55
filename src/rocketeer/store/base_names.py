"""Names of the store's files: the offset of the first byte, in 20 digits."""

import os
from pathlib import Path
from typing import Final

NAME_DIGITS: Final = 20


def base_name(offset: int) -> str:
    return f"{offset:0{NAME_DIGITS}d}"


def is_base_name(name: str) -> bool:
    return len(name) == NAME_DIGITS and name.isascii() and name.isdigit()


def bases_in(folder: Path | str) -> list[int]:
    """The offsets that a folder's files are named by, in order; none where there is no folder."""
    try:
        return sorted(int(name) for name in os.listdir(folder) if is_base_name(name))
    except FileNotFoundError:
        return []

"""What queues and index want to know of stored properties, in plain Python: the twin of `_indexed_properties.pyx`."""

import re
from typing import Final

# One search finds all four, however many properties a sender adds. It reads them as decode_properties does:
# names only where a name may stand, empty values as none.
_INDEXED: Final = re.compile("\x02(TAGS|KEYS|UNIQ_KEY|DELAY)\x01([^\x02]+)")


def find_indexed_properties(properties: bytes) -> tuple[str | None, str, str | None, str]:
    """TAGS, KEYS, UNIQ_KEY and DELAY of stored properties; of two with one name the last counts."""
    tags = uniq_key = None
    keys = level = ""
    for name, value in _INDEXED.findall(f"\x02{properties.decode('utf-8', 'replace')}"):
        if name == "TAGS":
            tags = value
        elif name == "KEYS":
            keys = value
        elif name == "UNIQ_KEY":
            uniq_key = value
        else:
            level = value
    return tags, keys, uniq_key, level

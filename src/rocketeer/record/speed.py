"""The inner steps of sending: compiled where a C compiler was at hand when this was installed, else plain Python.

`ROCKETEER_PLAIN=1` keeps to plain Python; `COMPILED` says which it is.
"""

import os

from rocketeer.record import speed_plain
from rocketeer.record.speed_plain import PlainProperties as PlainProperties
from rocketeer.record.speed_plain import Row as Row

COMPILED = False
plain_properties = speed_plain.plain_properties
find_marks = speed_plain.find_marks
split_batch = speed_plain.split_batch
write_run = speed_plain.write_run

if os.environ.get("ROCKETEER_PLAIN", "") in ("", "0"):
    try:
        from rocketeer.record import _speed
    except ImportError:
        pass
    else:
        COMPILED = True
        plain_properties = _speed.plain_properties
        find_marks = _speed.find_marks
        split_batch = _speed.split_batch
        write_run = _speed.write_run

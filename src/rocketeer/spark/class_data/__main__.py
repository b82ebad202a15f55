"""`python -m rocketeer.spark.class_data`: make the archive of this user's sessions now: in an image, before tests."""

import os
import signal
import sys
import time
from typing import Final

from rocketeer.errors import RocketeerError
from rocketeer.spark.class_data.making import IN_BACKGROUND, make
from rocketeer.spark.java import use_java

_BACKGROUND_S_MAX: Final = 1800
_NICENESS: Final = 19


def main() -> int:
    if IN_BACKGROUND in sys.argv[1:]:
        os.nice(_NICENESS)
        signal.alarm(_BACKGROUND_S_MAX)  # whatever stands still, the process ends, and its JVM with it
    began_s = time.monotonic()
    try:
        archive = make(use_java())
    except RocketeerError as error:
        print(f"no class data: {error}", file=sys.stderr)
        return 1
    print(f"class data in {archive.folder}, {time.monotonic() - began_s:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

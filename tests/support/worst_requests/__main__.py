"""`python -m support.worst_requests [part of a place or name]` (with PYTHONPATH=tests) prints what entries cost now."""

import sys
import tempfile
import time
from pathlib import Path

from support.worst_requests import CATALOGUES, SCENES, Worst, measure
from support.worst_requests.reads import EACH_WIDE


def main(wanted: str = "") -> None:
    """Print what every entry costs now."""

    def entries(place: str) -> list[Worst]:
        more = EACH_WIDE if wanted and place == "broker" else []
        return [worst for worst in CATALOGUES[place] + more if wanted in f"{place} {worst.name}"]

    for scene, places in SCENES.items():
        if not any(entries(place) for place in places):
            continue
        with tempfile.TemporaryDirectory() as folder, scene(Path(folder)) as targets:
            for place in places:
                for worst in entries(place):
                    began_s = time.monotonic()
                    cost = measure(targets[place], worst)
                    took_s = time.monotonic() - began_s
                    print(
                        f"{place:20} {worst.name:66} {cost.hold_ms:9.1f} ms {cost.memory_mb:7.1f} MB {took_s:6.1f} s",
                        flush=True,
                    )


if __name__ == "__main__":
    main(*sys.argv[1:])

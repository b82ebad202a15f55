"""`python -m support.worst_requests [part of a name]` (with PYTHONPATH=tests) prints what entries cost now."""

import sys
import tempfile
import time
from pathlib import Path

from support.cluster import running_cluster
from support.worst_requests.catalogue import BROKER, NAMESERVER
from support.worst_requests.measuring import measure, prepare
from support.worst_requests.reads import EACH_WIDE


def main(wanted: str = "") -> None:
    """Print what every entry costs now."""
    with tempfile.TemporaryDirectory() as folder, running_cluster(Path(folder)) as cluster:
        prepare(cluster)
        each = EACH_WIDE if wanted else []
        for is_broker, catalogue in ((True, BROKER + each), (False, NAMESERVER)):
            for worst in catalogue:
                if wanted in worst.name:
                    began_s = time.monotonic()
                    cost = measure(cluster, worst, is_broker=is_broker)
                    took_s = time.monotonic() - began_s
                    server = "broker" if is_broker else "name server"
                    print(
                        f"{server:12} {worst.name:66} {cost.hold_ms:9.1f} ms {cost.memory_mb:7.1f} MB {took_s:6.1f} s",
                        flush=True,
                    )


if __name__ == "__main__":
    main(*sys.argv[1:])

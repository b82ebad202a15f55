"""A broker on a disk that can be made slow: `with slow_disk_cluster(folder, conf=...) as (cluster, disk)`.

`slow_disk.c`, preloaded into the servers, lets every write to the log wait; the broker itself is as it always is.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cluster import ServerCluster, running_cluster

_SOURCE = Path(__file__).with_name("slow_disk.c")


class Disk:
    """How long each write to the log takes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.wait(0)

    def wait(self, wait_ms: int) -> None:
        written = self._path.with_suffix(".new")
        written.write_text(str(wait_ms))
        os.replace(written, self._path)  # the broker reads either the old or the new number


@contextmanager
def slow_disk_cluster(folder: Path, *, conf: Mapping[str, object]) -> Iterator[tuple[ServerCluster, Disk]]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = folder / "slow_disk.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"],
        check=True,
        timeout=60,
    )
    disk = Disk(folder / "slow_disk.ms")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("SLOW_DISK", str(folder / "slow_disk.ms"))
        with running_cluster(folder, conf=conf) as cluster:
            try:
                yield cluster, disk
            finally:
                disk.wait(0)

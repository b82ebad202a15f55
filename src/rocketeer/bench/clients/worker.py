"""A client process of the benchmark: `python -m rocketeer.bench.clients.worker JOB` prints its figures and ends."""

import os
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from rocketeer.bench.clients import cpp, ours
from rocketeer.bench.clients.job import ClientJob, Library, Mode, RunFigures

MEASURES: Final[dict[Library, dict[Mode, Callable[[ClientJob], RunFigures]]]] = {
    "ours": {
        "sync": ours.sync,
        "threads": ours.threads,
        "async": ours.concurrent,
        "gather": ours.gather,
        "oneway": ours.oneway,
        "batch": ours.batch,
        "push": ours.push,
    },
    "cpp": {
        "sync": cpp.sync,
        "threads": cpp.threads,
        "async": cpp.concurrent,
        "oneway": cpp.oneway,
        "batch": cpp.batch,
        "push": cpp.push,
    },
}


def main() -> None:
    job = msgspec.json.decode(sys.argv[1], type=ClientJob)
    try:
        said = msgspec.json.encode(MEASURES[job.library][job.mode](job)).decode()
        code = 0
    except Exception as why:
        said = f"{type(why).__name__}: {why}"
        code = 1
    print(said, flush=True)
    if job.library == "cpp":
        os._exit(code)  # the library's threads outlive a polite end
    sys.exit(code)


if __name__ == "__main__":
    main()

"""Which tests stay together, and in which order, when several processes share them (`make test`).

A file's tests run in one process, one after the other: what is made once for a file is made once. So do all tests of
folders that share something expensive: one JVM, one browser, one pair of brokers.
"""

from collections.abc import Sequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

TOGETHER = ("tests/spark/", "tests/console/", "tests/admin/")
# Spark needs all cores at times: beside it run those that count, not those that look at the time. The small files that
# are left at the end keep all processes busy until the last.
ORDER = ("spark", "unit", "group", "crash", "console", "admin", "interop", "client")


class FilesTogether(LoadFileScheduling):
    """Files in the order of their collection; each goes whole to the next process that is free."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)


def together(nodeid: str) -> str:
    """A name for all tests that run in the same process as this one."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """As they should begin; files and folders stay in one piece."""

    def rank(item: pytest.Item) -> int:
        folder = item.nodeid.split("/")[1]
        return ORDER.index(folder) if folder in ORDER else len(ORDER)

    return sorted(items, key=rank)

"""When a test fails, the last words of its servers are printed with it."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_failed] = True
    return report


@pytest.fixture(autouse=True)
def _last_words(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    yield
    if request.node.stash.get(_failed, False):
        for log in sorted(tmp_path.glob("*.out")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-6000:]}")

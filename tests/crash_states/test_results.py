"""The table in docs/reliability.md is what the explorer prints of the runs whose counts are kept beside it."""

from pathlib import Path

from crash_states.report import Report

RESULTS = Path(__file__).parent / "results"
DOCUMENT = Path(__file__).parents[2] / "docs" / "reliability.md"


def test_the_documented_table_is_what_the_command_prints() -> None:
    """`python -m crash_states --add tests/crash_states/results/*.json`"""
    report = Report()
    for path in sorted(RESULTS.glob("*.json")):
        report.add_saved(path)
    assert report.states >= 20_000
    assert report.table() in DOCUMENT.read_text()

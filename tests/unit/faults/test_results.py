"""The table in the docs is what the kept runs add up to."""

from pathlib import Path

from faults.report import load, table

TESTS = Path(__file__).parents[2]


def test_the_table_of_faults_in_the_docs_is_the_sum_of_the_kept_runs() -> None:
    runs = load((TESTS / "faults" / "results").glob("*.json"))
    assert runs
    docs = (TESTS.parent / "docs" / "reliability.md").read_text()
    missing = [line for line in table(runs).splitlines() if line not in docs]
    assert missing == []
    assert [run.problems for run in runs] == [[]] * len(runs)

"""What the tests of jobs share beside the session and the broker."""

import pytest
from pyspark.sql import SparkSession

from support.spark_commands import Commands

from ..conftest import Broker


@pytest.fixture
def job(
    spark: SparkSession, broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    """`job("archive", folder, "-t", topic)`: the command, with the session that is there."""
    return Commands(capsys, monkeypatch, broker.nameserver)

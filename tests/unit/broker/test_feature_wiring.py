"""What the composition root makes of the features' contributions."""

import tomllib
from pathlib import Path
from typing import cast

import pytest

from rocketeer.broker.assemble import forget_by_all
from rocketeer.broker.feature import Feature
from rocketeer.broker.feature_order import check_known_to_writer
from rocketeer.remoting.router import Connection

ROOT = Path(__file__).parents[3]


def test_a_closed_connection_is_forgotten_by_every_feature_also_when_one_fails() -> None:
    called: list[str] = []

    def fail(connection: Connection) -> None:
        called.append("clients")
        raise RuntimeError("a bug of a feature")

    forget = forget_by_all(
        [
            Feature("clients", on_close=(fail,)),
            Feature("messages", on_close=(lambda connection: called.append("messages"),)),
        ]
    )
    with pytest.raises(RuntimeError, match="a bug"):
        forget(cast(Connection, None))
    assert called == ["clients", "messages"]


def test_a_feature_that_the_writer_does_not_know_has_no_say_in_what_is_written() -> None:
    known = Feature("known", rewrites=(lambda message: None,))
    late = Feature("late", durability=(lambda end, done: done(0),))
    check_known_to_writer([known, Feature("other")], [known])
    with pytest.raises(AssertionError, match="the writer was made without late"):
        check_known_to_writer([known, late], [known])


def test_the_import_contract_names_every_module_that_is_made_of_features() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["name"].startswith("Features do not know the broker")]
    folder = ROOT / "src" / "rocketeer" / "broker"
    importing = {
        f"rocketeer.broker.{path.stem}"
        for path in folder.glob("*.py")
        if "from rocketeer.broker.features" in path.read_text()
    }
    assert importing == {
        f"rocketeer.broker.{name}" for name in ("feature_order", "followed_tables", "make_features")
    }
    assert importing <= set(contract["forbidden_modules"])

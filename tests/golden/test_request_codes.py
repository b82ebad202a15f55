"""Which request codes RocketMQ 4.9.8 answers (`data/request_codes.tsv`), and that our servers answer all of them."""

import csv
from pathlib import Path

from rocketeer.broker.assemble import Broker
from rocketeer.config import BrokerConfig, NamesrvConfig, ServerConfig, StoreConfig
from rocketeer.nameserver.server import NameServer
from support.clock import ManualClock

TABLE = Path(__file__).parent / "data" / "request_codes.tsv"


def codes_of(server: str) -> dict[int, str]:
    with TABLE.open() as lines:
        return {
            int(row["code"]): row["name"]
            for row in csv.DictReader(lines, delimiter="\t")
            if f"{server}:" in row["handled_by_4.9.8"]
        }


async def test_the_broker_answers_every_code_that_rocketmq_answers(tmp_path: Path) -> None:
    config = BrokerConfig(broker_name="broker-a", host="127.0.0.1", ha_host="127.0.0.1")
    broker = Broker(config, StoreConfig(store_path=tmp_path), ServerConfig(), ManualClock())
    ours = {code for feature in broker.components().features for code in feature.handlers}
    known = codes_of("broker")
    assert len(known) > 50
    assert {code: name for code, name in known.items() if code not in ours} == {}


async def test_the_name_server_answers_every_code_that_rocketmq_answers(tmp_path: Path) -> None:
    server = NameServer(NamesrvConfig(kv_config_path=tmp_path / "kv", config_path=tmp_path / "conf"))
    known = codes_of("namesrv")
    assert len(known) > 15
    assert {code: name for code, name in known.items() if code not in server.handled_codes} == {}

"""Rocketeer: a RocketMQ-compatible messaging engine in Python.

The clients' names are here, each loaded when it is first asked for: `import rocketeer` alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketeer.admin.blocking import Admin as Admin
    from rocketeer.client.api import *  # noqa: F403 its names are listed there
    from rocketeer.client.app import App as App
    from rocketeer.client.log_handler import LogHandler as LogHandler
    from rocketeer.client.sync.lite_pull_consumer import LitePullConsumer as LitePullConsumer
    from rocketeer.client.sync.producer import Producer as Producer
    from rocketeer.client.sync.pull_consumer import PullConsumer as PullConsumer
    from rocketeer.client.sync.push_consumer import PushConsumer as PushConsumer
    from rocketeer.client.sync.transaction_producer import TransactionProducer as TransactionProducer

__version__ = "0.1.0"

_CLIENTS = {
    "Admin": "rocketeer.admin.blocking",
    "App": "rocketeer.client.app",
    "LitePullConsumer": "rocketeer.client.sync.lite_pull_consumer",
    "LogHandler": "rocketeer.client.log_handler",
    "Producer": "rocketeer.client.sync.producer",
    "PullConsumer": "rocketeer.client.sync.pull_consumer",
    "PushConsumer": "rocketeer.client.sync.push_consumer",
    "TransactionProducer": "rocketeer.client.sync.transaction_producer",
}
"""What only this module has; the rest is in client.api, which rocketeer.aio shares."""


def __getattr__(name: str) -> Any:
    if name in _CLIENTS:
        value = getattr(import_module(_CLIENTS[name]), name)
    elif name == "__all__":
        value = __dir__()
    elif name.startswith("_") or name not in (shared := import_module("rocketeer.client.api")).__all__:
        raise AttributeError(f"module 'rocketeer' has no attribute {name!r}")
    else:
        value = getattr(shared, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_CLIENTS, *import_module("rocketeer.client.api").__all__])

"""Configuration: RocketMQ's own files and keys in, frozen typed values out."""

from rocketeer.config.limits import BrokerLimits, NamesrvLimits, ServerLimits
from rocketeer.config.properties import PropertyEntry, load_properties, parse_properties
from rocketeer.config.reading import parse_addresses, read_config
from rocketeer.config.settings import ServerRole, Settings, effective_properties
from rocketeer.config.values import (
    BROKER_PORT,
    NAMESRV_PORT,
    BrokerConfig,
    BrokerRole,
    FlushMode,
    MetricsExporter,
    NamesrvConfig,
    ServerConfig,
    StoreConfig,
    local_address,
)

__all__ = [
    "BROKER_PORT",
    "NAMESRV_PORT",
    "BrokerConfig",
    "BrokerLimits",
    "BrokerRole",
    "FlushMode",
    "MetricsExporter",
    "NamesrvConfig",
    "NamesrvLimits",
    "PropertyEntry",
    "ServerConfig",
    "ServerLimits",
    "ServerRole",
    "Settings",
    "StoreConfig",
    "effective_properties",
    "load_properties",
    "local_address",
    "parse_addresses",
    "parse_properties",
    "read_config",
]

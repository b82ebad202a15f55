"""The catalogue of worst requests: for each its name, the frames, and how much memory it may take from the server.

An attack uses the server until everything it sent was answered or refused; what it costs others is measured by
`support.hold`. `python -m support.worst_requests` (with PYTHONPATH=tests) prints the table for all servers and ports.
"""

from support.worst_requests import (
    accounts,
    clients,
    console,
    crowds,
    extended,
    filled_tables,
    filters,
    frames,
    long_texts,
    loose_json,
    metrics,
    name_server,
    peers,
    reads,
    sends,
    tls,
)
from support.worst_requests.catalogue import CATALOGUES, Worst
from support.worst_requests.measuring import measure
from support.worst_requests.scenes import SCENES, Scene, Target

__all__ = [
    "CATALOGUES",
    "SCENES",
    "Scene",
    "Target",
    "Worst",
    "accounts",
    "clients",
    "console",
    "crowds",
    "extended",
    "filled_tables",
    "filters",
    "frames",
    "long_texts",
    "loose_json",
    "measure",
    "metrics",
    "name_server",
    "peers",
    "reads",
    "sends",
    "tls",
]

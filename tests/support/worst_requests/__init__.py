"""The catalogue of worst requests: for each its name, the frames, and how much memory it may take from the server.

An attack uses the server until everything it sent was answered or refused; what it costs others is measured by
`support.hold`. `python -m support.worst_requests` (with PYTHONPATH=tests) prints the table for both servers.
"""

from support.worst_requests import clients, crowds, filters, frames, name_server, reads, sends
from support.worst_requests.catalogue import BROKER, NAMESERVER, Worst
from support.worst_requests.measuring import measure, prepare

__all__ = [
    "BROKER",
    "NAMESERVER",
    "Worst",
    "clients",
    "crowds",
    "filters",
    "frames",
    "measure",
    "name_server",
    "prepare",
    "reads",
    "sends",
]

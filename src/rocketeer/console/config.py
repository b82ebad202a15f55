"""What a console is told: which clusters it shows, where it listens, who may sign in."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import yaml

from rocketeer.errors import ConfigError

CONSOLE_PORT = 8080


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """One set of name servers, under a name; the account stays on the server."""

    name: str
    nameserver: str
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    report: str | None = None
    """The page that `rocketeer spark stats` made: a file here, or its address."""


@dataclass(frozen=True, kw_only=True)
class ConsoleConfig:
    clusters: tuple[ClusterConfig, ...]
    host: str = "127.0.0.1"
    port: int = CONSOLE_PORT
    users: Path | None = None
    """A file of users (see users.py). Without one everybody on this machine is an admin; beyond it nobody gets in."""
    certificate: Path | None = None
    """PEM files: with them the console speaks HTTPS."""
    key: Path | None = None
    audit_log: Path | None = None
    """Who changed what is appended here, a line of JSON each; without it, to the program's log."""

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_secure(self) -> bool:
        return self.certificate is not None

    def check(self) -> None:
        """Raise ConfigError for settings that cannot be."""
        if not self.clusters:
            raise ConfigError("the console needs a cluster: -n HOST:PORT, or a file with --clusters")
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("HTTPS needs both --certificate and --key")
        names = [cluster.name for cluster in self.clusters]
        if len(set(names)) != len(names):
            raise ConfigError(f"two clusters have one name: {', '.join(names)}")
        if not self.is_loopback and self.users is None:
            raise ConfigError(
                f"the console listens on {self.host}, beyond this machine: name the file of its users with --users "
                "(rocketeer console-user FILE NAME adds one)"
            )


def read_clusters(path: Path) -> tuple[ClusterConfig, ...]:
    """From YAML: `name: host:port`, or `name: {nameserver:, accessKey:, secretKey:, report:}`. Raises ConfigError."""
    try:
        content = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError:
        raise ConfigError(f"{path} is no YAML") from None
    if not isinstance(content, dict) or not content:
        raise ConfigError(f"{path} names no cluster: write `name: host:port`, a line each")
    clusters: list[ClusterConfig] = []
    for name, entry in content.items():
        fields = {"nameserver": entry} if isinstance(entry, str) else entry
        if not isinstance(fields, dict) or not isinstance(fields.get("nameserver"), str):
            raise ConfigError(f"{path}: the cluster {name} has no nameserver")
        clusters.append(
            ClusterConfig(
                name=str(name),
                nameserver=fields["nameserver"],
                access_key=_text(fields.get("accessKey")),
                secret_key=_text(fields.get("secretKey")),
                report=_text(fields.get("report")),
            )
        )
    return tuple(clusters)


def _text(value: object) -> str | None:
    return None if value is None else str(value)

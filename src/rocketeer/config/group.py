"""A group of brokers that elect their leader: keys of our own, all begin with `group`. See docs/groups.md."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

MEMBERS_MAX: Final = 1_000


def _key(name: str, **rules: Any) -> dict[str, Any]:
    return {"java": name, **rules}


_URL = r"https?://[^\s;,/]+:[0-9]+"
_ENDPOINTS = {
    "pattern": f"{_URL}(;{_URL})*",
    "expected": "http://10.0.0.1:2379;http://10.0.0.2:2379 ..., one for every etcd",
}


@dataclass(frozen=True, kw_only=True)
class ReplicaGroupConfig:
    """Which etcd decides, and who this broker is among the members; the group is named as the broker is."""

    etcd: str | None = field(default=None, metadata=_key("groupEtcd", **_ENDPOINTS))
    """Set: this broker is a member of a group."""
    member_id: int = field(default=0, metadata=_key("groupMemberId", least=1, most=MEMBERS_MAX))
    """Also its brokerId while it is no leader."""
    members: int = field(default=3, metadata=_key("groupMembers", least=1, most=MEMBERS_MAX))
    """How many there are meant to be."""
    min_in_sync_or_zero: int = field(default=0, metadata=_key("groupMinInSync", least=0, most=MEMBERS_MAX))
    """0: a majority of the members."""
    port_or_zero: int = field(default=0, metadata=_key("groupPort", least=0, most=65_535))
    """Where members reach each other; 0: listenPort plus 2."""
    lease_s: int = field(default=3, metadata=_key("groupLeaseSeconds", least=1, most=600))
    """A member that has not been heard of for so long is taken for dead."""
    lag_ms_max: int = field(default=2_000, metadata=_key("groupLagMs", least=100, most=60_000))
    """A member that has not acknowledged for so long what was sent to it is taken out of the in-sync set."""
    etcd_user: str | None = field(default=None, metadata=_key("groupEtcdUser"))
    etcd_password_file: Path | None = field(default=None, metadata=_key("groupEtcdPasswordFile"))
    etcd_ca: Path | None = field(default=None, metadata=_key("groupEtcdCa"))
    etcd_certificate: Path | None = field(default=None, metadata=_key("groupEtcdCertificate"))
    etcd_key: Path | None = field(default=None, metadata=_key("groupEtcdKey"))

    @property
    def enabled(self) -> bool:
        return self.etcd is not None

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple((self.etcd or "").split(";"))

    @property
    def min_in_sync(self) -> int:
        return self.min_in_sync_or_zero or self.members // 2 + 1

    def port(self, listen_port: int) -> int:
        return self.port_or_zero or listen_port + 2

"""etcd through the JSON gateway of its v3 API: ranges, transactions, leases.

Any endpoint will do; one that does not answer in time gives way to the next. `EtcdUnavailable`: nobody knows whether
what was asked has been done; whoever changes something reads it again.
"""

import base64
import logging
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from rocketeer.config.group import ReplicaGroupConfig
from rocketeer.errors import ConfigError, EtcdUnavailable, GroupError

log = logging.getLogger(__name__)

UNAUTHENTICATED: Final = 16
"""gRPC's code, as the gateway tells it."""


@dataclass(frozen=True)
class Access:
    """How etcd lets us in."""

    user: str | None = None
    password_file: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @classmethod
    def of(cls, group: ReplicaGroupConfig) -> Self:
        return cls(
            group.etcd_user,
            group.etcd_password_file,
            group.etcd_ca,
            group.etcd_certificate,
            group.etcd_key,
        )


@dataclass(frozen=True)
class KeyValue:
    key: str
    value: bytes
    mod_revision: int


@dataclass(frozen=True)
class RangeResult:
    """The keys under a prefix at one moment."""

    cluster: str
    revision: int
    values: Mapping[str, KeyValue]


class Etcd:
    """One client for all endpoints; belongs to the loop it is used in."""

    def __init__(
        self, endpoints: Sequence[str], access: Access | None = None, *, timeout_s: float = 1.0
    ) -> None:
        try:
            import httpx2
        except ImportError:
            raise ConfigError(
                "groups need an HTTP client for etcd: pip install 'rocketeer[groups]'"
            ) from None
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # it tells of every request
        self._errors = httpx2.HTTPError
        self._access = access = access or Access()
        self._endpoints = list(endpoints)
        self._token: str | None = None
        context: ssl.SSLContext | bool = True
        if access.ca is not None or access.certificate is not None:
            context = ssl.create_default_context(cafile=None if access.ca is None else str(access.ca))
            if access.certificate is not None:
                context.load_cert_chain(access.certificate, access.key)
        self._http = httpx2.AsyncClient(timeout=timeout_s, verify=context, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    # --- keys --------------------------------------------------------------------------------

    async def range(self, prefix: str, *, revision: int = 0) -> RangeResult:
        """Every key that begins with the prefix, now or as it was at a revision.

        Asks a majority, so nothing that was committed is missed.
        """
        asked = {"key": _text(prefix), "range_end": _text(_after(prefix)), "revision": str(revision)}
        answer = await self._call("kv/range", asked)
        header = answer["header"]
        found = [_key_value(each) for each in answer.get("kvs", ())]
        return RangeResult(
            header["cluster_id"], int(header.get("revision", 0)), {each.key: each for each in found}
        )

    async def put(self, key: str, value: bytes, lease: str) -> None:
        await self._call("kv/put", {"key": _text(key), "value": _bytes(value), "lease": lease})

    async def put_if(self, key: str, value: bytes, mod_revision: int) -> bool:
        """Put without a lease if the key was last changed at this revision (0: is not there); False if it was not."""
        compare = {
            "key": _text(key),
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": str(mod_revision),
        }
        put = {"request_put": {"key": _text(key), "value": _bytes(value)}}
        answer = await self._call("kv/txn", {"compare": [compare], "success": [put]})
        return bool(answer.get("succeeded", False))

    async def delete(self, key: str) -> None:
        await self._call("kv/deleterange", {"key": _text(key)})

    # --- leases ------------------------------------------------------------------------------

    async def grant(self, ttl_s: int) -> str:
        answer = await self._call("lease/grant", {"TTL": str(ttl_s)})
        if answer.get("error"):
            raise GroupError(f"etcd grants no lease: {answer['error']}")
        return str(answer["ID"])

    async def keep_alive(self, lease: str) -> bool:
        """Renew the lease; False when it is over."""
        answer = await self._call("lease/keepalive", {"ID": lease})
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    async def revoke(self, lease: str) -> None:
        await self._call("lease/revoke", {"ID": lease})

    # --- asking ------------------------------------------------------------------------------

    async def _call(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if self._access.user is not None and self._token is None:
            await self._sign_in()
        answer = await self._ask(path, body)
        if answer.get("code") == UNAUTHENTICATED and self._access.user is not None:
            await self._sign_in()
            answer = await self._ask(path, body)
        if "code" in answer and "error" in answer:
            raise GroupError(f"etcd refuses {path}: {answer.get('message', answer['error'])}")
        return answer

    async def _sign_in(self) -> None:
        file = self._access.password_file
        password = "" if file is None else file.read_text().strip()
        self._token = None
        answer = await self._ask("auth/authenticate", {"name": self._access.user, "password": password})
        if "token" not in answer:
            raise GroupError(f"etcd does not let {self._access.user} in: {answer.get('message', answer)}")
        self._token = str(answer["token"])

    async def _ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the endpoints in turn until one answers; that one is asked first from then on."""
        headers = {} if self._token is None else {"Authorization": self._token}
        told = ""
        for _ in range(len(self._endpoints)):
            try:
                reply = await self._http.post(f"{self._endpoints[0]}/v3/{path}", json=body, headers=headers)
                if 400 <= reply.status_code < 500 and "json" not in reply.headers.get("content-type", ""):
                    raise GroupError(f"etcd refuses {path}: {reply.text.strip()[:200]}")
                answer = reply.json()
                if not isinstance(answer, dict):
                    raise ValueError(f"{answer!r} is no answer")
                if reply.status_code not in (500, 502, 503, 504):
                    return answer
                told = f"{self._endpoints[0]}: {answer.get('message', reply.status_code)}"
            except (self._errors, ValueError, OSError) as error:
                told = f"{self._endpoints[0]}: {error or type(error).__name__}"
            self._endpoints.append(self._endpoints.pop(0))
        raise EtcdUnavailable(f"etcd does not answer: {told}")


def _key_value(raw: Mapping[str, str]) -> KeyValue:
    key = base64.b64decode(raw["key"]).decode()
    return KeyValue(key, base64.b64decode(raw.get("value", "")), int(raw["mod_revision"]))


def _text(text: str) -> str:
    return _bytes(text.encode())


def _bytes(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _after(prefix: str) -> str:
    """The end of the range of all keys with this prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)

"""How a client's connections are protected: its account's signature on every request, and TLS underneath."""

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocketeer.protocol.command import Sign
from rocketeer.security.credentials import find_credentials
from rocketeer.security.signature import Signer
from rocketeer.security.tls import TlsConfig, client_context, client_tls, load_tls_properties

if TYPE_CHECKING:
    from rocketeer.client.core.config import ClientConfig

TLS_FILE_VARIABLE = "ROCKETEER_TLS_CONFIG"
"""The path of a `tls.properties`: with `tls.enable=true` in it clients use TLS unless they say otherwise."""


@dataclass(frozen=True)
class ConnectionSecurity:
    """What connections are made with; nothing of both by default."""

    sign: Sign | None = None
    tls: ssl.SSLContext | None = None
    access_key: str | None = None


OPEN = ConnectionSecurity()


def connection_security(
    access_key: str | None = None,
    secret_key: str | None = None,
    tls: bool | TlsConfig | None = None,
    *,
    now_ms: Callable[[], int],
    environment: Mapping[str, str] = os.environ,
) -> ConnectionSecurity:
    """From a client's options, else from the environment. Raises ConfigError."""
    account = find_credentials(access_key, secret_key, environment=environment)
    if tls is None and environment.get(TLS_FILE_VARIABLE):
        tls = client_tls(load_tls_properties(Path(environment[TLS_FILE_VARIABLE])))
    if tls is True:
        tls = TlsConfig()
    return ConnectionSecurity(
        sign=None if account is None else Signer(account.access_key, account.secret_key, now_ms).signed,
        tls=client_context(tls) if tls else None,
        access_key=None if account is None else account.access_key,
    )


def security_of(config: "ClientConfig", now_ms: Callable[[], int]) -> ConnectionSecurity:
    return connection_security(config.access_key, config.secret_key, config.tls, now_ms=now_ms)

"""TLS contexts from RocketMQ's settings: `tls.server.mode` and the files that `tls.properties` names.

    tls.server.certPath, keyPath, keyPassword      what the server shows
    tls.server.need.client.auth                    none, optional or require; trustCertPath has who signed clients
    tls.client.certPath, keyPath, keyPassword, trustCertPath, authServer      the same for a client

TLS 1.2 and 1.3 only. A server reads certificates again when their files change; connections that stand go on.
"""

import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rocketeer.config.properties import load_properties
from rocketeer.errors import ConfigError

log = logging.getLogger(__name__)


class TlsMode(StrEnum):
    """Who may come: nobody with TLS, everybody, only those with TLS."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


@dataclass(frozen=True, kw_only=True)
class TlsConfig:
    """Files in PEM format. `trust` is who signed the other side's certificate; None: who the system trusts.

    `verify=False` takes any certificate: the other side may be anybody. For tests.
    """

    cert: Path | None = None
    """The certificate to show, with those that signed it."""
    key: Path | None = None
    """The key of `cert`."""
    key_password: str | None = None
    """What the key is encrypted with."""
    trust: Path | None = None
    verify: bool = True
    check_hostname: bool = True
    """Whether the certificate must be one for the host that was asked."""

    def __repr__(self) -> str:
        return f"TlsConfig(cert={self.cert}, trust={self.trust}, verify={self.verify})"

    @property
    def files(self) -> list[Path]:
        """All files that were named."""
        return [path for path in (self.cert, self.key, self.trust) if path is not None]


@dataclass(frozen=True, kw_only=True)
class ServerTls:
    """What a server is configured to do; `client_auth` is none, optional or require."""

    mode: TlsMode
    config: TlsConfig
    client_auth: str = "none"

    @property
    def has_certificate(self) -> bool:
        return self.config.cert is not None and self.config.key is not None


def server_tls(mode: TlsMode, properties: Mapping[str, str]) -> ServerTls:
    """From the lines of a `tls.properties`. Raises ConfigError for what contradicts itself."""
    path = {
        name: Path(text)
        for name in ("certPath", "keyPath", "trustCertPath")
        if (text := properties.get(f"tls.server.{name}", "").strip())
    }
    auth = properties.get("tls.server.need.client.auth", "none").strip().lower()
    # 4.9.8 has a switch beside it: true asks every client for a certificate that the trusted ones signed.
    if properties.get("tls.server.authClient", "").strip().lower() == "true":
        auth = "require"
    if auth not in ("none", "optional", "require"):
        raise ConfigError(f"tls.server.need.client.auth is {auth!r}, none of none, optional, require")
    if ("certPath" in path) != ("keyPath" in path):
        raise ConfigError("tls.server.certPath and tls.server.keyPath go together: one of them is missing")
    if auth != "none" and "trustCertPath" not in path:
        raise ConfigError(
            "clients must show certificates, but tls.server.trustCertPath says not who signs them"
        )
    tls = ServerTls(
        mode=mode,
        config=TlsConfig(
            cert=path.get("certPath"),
            key=path.get("keyPath"),
            key_password=properties.get("tls.server.keyPassword") or None,
            trust=path.get("trustCertPath"),
        ),
        client_auth=auth,
    )
    if mode is TlsMode.ENFORCING and not tls.has_certificate:
        raise ConfigError("tls.server.mode=enforcing, but tls.server.certPath and keyPath are not set")
    return tls


def client_tls(properties: Mapping[str, str]) -> TlsConfig | None:
    """What the calls of a server, and of tools, use: TLS if `tls.enable` is true."""
    if properties.get("tls.enable", "").strip().lower() != "true":
        return None

    def path(name: str) -> Path | None:
        text = properties.get(f"tls.client.{name}", "").strip()
        return Path(text) if text else None

    # Java verifies only if authServer says so, and never looks at the host's name.
    verify = properties.get("tls.client.authServer", "true").strip().lower() != "false"
    return TlsConfig(
        cert=path("certPath"),
        key=path("keyPath"),
        key_password=properties.get("tls.client.keyPassword") or None,
        trust=path("trustCertPath"),
        verify=verify,
        check_hostname=properties.get("tls.client.checkHostname", "true").strip().lower() != "false",
    )


def load_tls_properties(path: Path) -> dict[str, str]:
    """The lines of a `tls.properties`; none without the file. Raises ConfigError."""
    return {entry.key: entry.value for entry in load_properties(path)} if path.exists() else {}


def server_context(tls: ServerTls) -> ssl.SSLContext:
    """Make a server's TLS context. Raises ConfigError that names the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _show_certificate(context, tls.config)
    if tls.client_auth != "none":
        assert tls.config.trust is not None
        _trust(context, tls.config.trust)
        context.verify_mode = ssl.CERT_REQUIRED if tls.client_auth == "require" else ssl.CERT_OPTIONAL
    return context


def client_context(config: TlsConfig) -> ssl.SSLContext:
    """Make a client's TLS context. Raises ConfigError that names the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = config.verify and config.check_hostname
    if not config.verify:
        context.verify_mode = ssl.CERT_NONE
    elif config.trust is not None:
        _trust(context, config.trust)
    else:
        context.load_default_certs()
    if config.cert is not None:
        _show_certificate(context, config)
    return context


def _show_certificate(context: ssl.SSLContext, config: TlsConfig) -> None:
    assert config.cert is not None
    key = config.key or config.cert
    if key.exists() and key.stat().st_mode & 0o077:
        log.warning("private key can be read by others path=%s: chmod 600", key)
    # Without a password in the settings OpenSSL would ask the terminal for one, and wait for ever.
    password = config.key_password or ""
    try:
        context.load_cert_chain(config.cert, key, password=lambda: password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"certificate {config.cert} and key {key} cannot be used: {_reason(error)}"
        ) from None


def _trust(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the trusted certificates {path} cannot be used: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return error.strerror or str(error)


class ReloadingContext:
    """A server's context, made anew when one of its files changed. `refresh` does IO: call it in a thread."""

    def __init__(self, tls: ServerTls) -> None:
        self._tls = tls
        self._seen = self._stamps()
        self._context: ssl.SSLContext | None = None
        if tls.has_certificate and tls.mode is not TlsMode.DISABLED:
            self._context = server_context(tls)

    @property
    def takes_plain(self) -> bool:
        return self._tls.mode is not TlsMode.ENFORCING

    @property
    def asks_for_certificates(self) -> bool:
        """Whether nobody comes with TLS who shows none (mutual TLS)."""
        return self._context is not None and self._tls.client_auth == "require"

    @property
    def has_files(self) -> bool:
        """Whether there is anything to be looked at again."""
        return self._context is not None

    def context(self) -> ssl.SSLContext | None:
        """For the next connection; None where there is no TLS."""
        return self._context

    def refresh(self) -> bool:
        """True when new certificates are shown from now on; useless files leave the old ones in use."""
        stamps = self._stamps()
        if self._context is None or stamps == self._seen:
            return False
        self._seen = stamps
        try:
            self._context = server_context(self._tls)
        except ConfigError as error:
            log.error("certificates not taken, the old ones stay in use error=%s", error)
            return False
        log.info("certificates read again path=%s", self._tls.config.cert)
        return True

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        stamps: list[tuple[int, int, int] | None] = []
        for path in self._tls.config.files:
            try:
                status = os.stat(path)
            except OSError:
                stamps.append(None)
            else:
                stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return stamps

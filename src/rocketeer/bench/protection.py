"""Brokers that ask for an account, or come with TLS, for the benchmark: the same files for either make."""

import contextlib
import datetime
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rocketeer.client.secure import TLS_FILE_VARIABLE
from rocketeer.config.properties import properties_text
from rocketeer.security.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, Credentials

ACCESS_KEY = "rocketeer-bench"
_ACCOUNTS = """accounts:
- accessKey: {key}
  secretKey: {secret}
  admin: true
- accessKey: somebody-else
  secretKey: {other}
  defaultTopicPerm: DENY
"""


@dataclass(frozen=True)
class ServerProtection:
    """Account and TLS of the servers that are started, as they were asked for; none by default."""

    account: Credentials | None = None
    acl_file: Path | None = None
    tls_file: Path | None = None
    trust: Path | None = None

    def broker_conf(self) -> dict[str, object]:
        if self.acl_file is None:
            return self.server_conf()
        return {"aclEnable": "true", "aclConfDir": self.acl_file.parent, **self.server_conf()}

    def server_conf(self) -> dict[str, object]:
        return {} if self.tls_file is None else {"tls.config.file": self.tls_file}

    def java_options(self) -> list[str]:
        """RocketMQ takes TLS from system properties; its test mode would show a certificate of its own."""
        if self.tls_file is None:
            return []
        return [f"-Dtls.config.file={self.tls_file}", "-Dtls.test.mode.enable=false"]


OPEN = ServerProtection()


@contextlib.contextmanager
def protected(folder: Path, *, acl: bool, tls: bool) -> Iterator[ServerProtection]:
    """Files in the folder, and the environment for what the benchmark asks beside its load."""
    account, acl_file, tls_file, trust = None, None, None, None
    environment: dict[str, str] = {}
    if acl:
        account = Credentials(ACCESS_KEY, secrets.token_hex(16))
        (folder / "conf").mkdir()
        acl_file = folder / "conf" / "plain_acl.yml"
        acl_file.touch(0o600)
        acl_file.write_text(
            _ACCOUNTS.format(key=ACCESS_KEY, secret=account.secret_key, other=secrets.token_hex(16))
        )
        environment |= {ACCESS_KEY_VARIABLE: account.access_key, SECRET_KEY_VARIABLE: account.secret_key}
    if tls:
        from rocketeer.security.certificates import Authority  # needs a package that only this needs

        authority = Authority(folder / "ca", days=2, now=datetime.datetime.now(datetime.UTC))
        issued = authority.issue("server", ["127.0.0.1", "localhost"])
        trust = authority.cert
        tls_file = folder / "tls.properties"
        lines = {
            "tls.server.certPath": issued.cert,
            "tls.server.keyPath": issued.key,
            "tls.client.trustCertPath": trust,
        }
        tls_file.write_text(properties_text({key: str(path) for key, path in lines.items()}))
        clients = folder / "clients.properties"  # Java's broker would take tls.enable for its own calls, too
        clients.write_text(properties_text({"tls.enable": "true", "tls.client.trustCertPath": str(trust)}))
        environment[TLS_FILE_VARIABLE] = str(clients)
    with _environment(environment):
        yield ServerProtection(account, acl_file, tls_file, trust)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

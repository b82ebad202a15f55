"""A small certificate authority of one's own, for tests and for a first try: `rocketeer certs`."""

import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rocketeer.errors import ConfigError

_HOST_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*")
BACKDATED = datetime.timedelta(minutes=5)
"""Clocks of other machines may be a little behind."""


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, in files."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; its own is what the others trust."""

    def __init__(self, folder: Path, *, days: int, now: datetime.datetime) -> None:
        """Reads the authority of the folder, or makes one. `now` is in UTC. Raises ConfigError for one of no use."""
        self._folder = folder
        self._now = now
        self._days = days
        self.cert, self._key_path = folder / "ca.pem", folder / "ca-key.pem"
        if self.cert.exists():
            self._certificate, self._key = self._read()
            return
        if self._key_path.exists():
            raise ConfigError(f"{self._key_path} is there without its certificate ca.pem: use another folder")
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Rocketeer test authority")
        self._certificate = (
            self._builder(name, name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        _write_key(self._key_path, self._key)
        self.cert.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, hosts: Sequence[str]) -> Issued:
        """A certificate for servers and clients, valid for these hosts: names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._builder(_name(name), self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        issued = Issued(self._folder / f"{name}.pem", self._folder / f"{name}-key.pem")
        _write_key(issued.key, key)
        issued.cert.write_bytes(
            builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        return issued

    def _read(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        try:
            key = serialization.load_pem_private_key(self._key_path.read_bytes(), None)
            certificate = x509.load_pem_x509_certificate(self.cert.read_bytes())
        except (ValueError, TypeError) as error:
            raise ConfigError(f"the authority {self.cert} or its key cannot be read: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ConfigError(f"{self._key_path} is not the key that was made for the authority {self.cert}")
        if certificate.not_valid_after_utc <= self._now:
            ended = certificate.not_valid_after_utc.date()
            raise ConfigError(f"the authority {self.cert} is valid until {ended} only: use another folder")
        return certificate, key

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        until = self._now + datetime.timedelta(days=self._days)
        if issuer != subject:  # nobody trusts it for longer than who signed it
            until = min(until, self._certificate.not_valid_after_utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - BACKDATED)
            .not_valid_after(until)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    if not _HOST_NAME.fullmatch(text):
        raise ConfigError(f"{text!r} is no host: give a name such as mq.example, or an address")
    return x509.DNSName(text)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    data = key.private_bytes(
        # The form that Java reads, too.
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.unlink(missing_ok=True)  # a file that is there would keep its mode
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)

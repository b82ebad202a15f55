"""Host addresses as records hold them: IPv4 8 bytes (ip4 | port i32), IPv6 20 bytes (ip16 | port i32)."""

import ipaddress
from typing import Final

V4_BYTES: Final = 8
V6_BYTES: Final = 20


def encode_host(ip: str, port: int) -> bytes:
    """The 8 or 20 bytes of an address; an IPv4 address written as IPv6 (::ffff:1.2.3.4) becomes IPv4.

    >>> encode_host("127.0.0.1", 10911).hex()
    '7f00000100002a9f'
    """
    address = ipaddress.ip_address(ip)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed + port.to_bytes(4, "big")


def decode_host(raw: bytes) -> tuple[str, int]:
    """The ip as text, and the port."""
    if len(raw) == V4_BYTES:
        return ".".join(map(str, raw[:4])), int.from_bytes(raw[4:], "big")
    if len(raw) != V6_BYTES:
        raise ValueError(f"a host has 8 or 20 bytes, not {len(raw)}")
    return str(ipaddress.IPv6Address(raw[:16])), int.from_bytes(raw[16:], "big")


def host_text(raw: bytes) -> str:
    """A host as people write it.

    >>> host_text(bytes.fromhex("7f00000100002a9f"))
    '127.0.0.1:10911'
    """
    ip, port = decode_host(raw)
    return f"{ip}:{port}" if len(raw) == V4_BYTES else f"[{ip}]:{port}"

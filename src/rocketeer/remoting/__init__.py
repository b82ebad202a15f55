"""Bytes between processes: the asyncio server, the asyncio client and the blocking connection."""

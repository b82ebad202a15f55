"""Typed bodies of requests and replies by subject: `encode_x(value) -> bytes`, `decode_x(bytes) -> value`.

Every `decode_x` reads strict JSON and fastjson's, ignores keys it does not know, and raises BadBody.
"""

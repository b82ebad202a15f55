"""The stored message: byte layout, properties, ids, flags. Pure; log and pull replies share the bytes."""

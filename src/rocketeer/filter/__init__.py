"""Which messages a subscription takes: by tag hash, and by SQL92 over properties. Pure."""

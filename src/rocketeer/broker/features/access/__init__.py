"""Access control on a broker: who may do what, by accounts in files."""

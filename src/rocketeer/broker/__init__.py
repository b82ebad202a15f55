"""The broker: features assembled around one store."""

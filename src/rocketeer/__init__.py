"""Rocketeer: a RocketMQ-compatible messaging engine in Python."""

__version__ = "0.1.0"

"""Texts that clients of RocketMQ know from its replies."""

from typing import Final

FAQ: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
"""Behind the refusals that newcomers meet."""

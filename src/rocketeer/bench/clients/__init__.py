"""Client libraries measured: ours beside PyPI's `rocketmq` (C++), each in a process of its own."""

"""Counters that the paths keep, what is made of them over time, and the exporters that read them."""

"""Metrics of a broker: what is counted and what the tables say, as pages for Prometheus."""

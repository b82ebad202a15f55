"""Producers and consumers: plans say what to ask, core keeps the state (both pure), aio and sync run them."""

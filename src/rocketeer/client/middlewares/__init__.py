"""Middlewares that come along; each follows `core.middleware`. Public in `rocketeer.middlewares`."""

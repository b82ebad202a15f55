"""What a client knows and decides: configuration, routes, faults, encoding. Pure; time is an argument."""

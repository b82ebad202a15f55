"""A member of a group as a feature of the broker; rules, streams and etcd are in `rocketeer.group`."""

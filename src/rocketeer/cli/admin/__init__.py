"""`rocketeer admin` and `mqadmin`: the commands of RocketMQ 4.9.8 over `rocketeer.Admin`."""

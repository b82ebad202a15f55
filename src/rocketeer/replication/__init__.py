"""Master and slave: the HA stream as RocketMQ 4.9.8 has it, both ends of it, and the tables that follow the log."""

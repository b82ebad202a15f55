"""RocketMQ's remoting protocol without IO: frames, commands, typed headers, JSON bodies."""

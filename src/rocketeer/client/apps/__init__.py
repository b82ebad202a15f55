"""The parts of `App`: what is declared, how it is configured, what is published, its dead letters, its health."""

"""The commands a person types; thin, over the servers and the client."""

"""What plugs into the broker: each module makes one `Feature`."""

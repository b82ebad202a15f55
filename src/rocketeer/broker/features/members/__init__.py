"""What operators ask of a group's running members, through the broker."""

"""What operators and their tools ask of a broker."""

"""What an operator asks and changes: plans for every admin request, and `Admin`, which runs them."""

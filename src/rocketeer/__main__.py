"""`python -m rocketeer` is the same as `rocketeer`."""

from rocketeer.cli.main import main

main()

"""What a group of brokers makes of dead, paused and cut-off members: a nemesis, a load with a ledger, a checker.

    python -m faults --seed 1 --minutes 2        (`make faults SEED=1 MINUTES=2`)

The same seed makes the same faults in the same order; what the load has sent by then is up to the machine.
"""

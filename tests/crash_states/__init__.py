"""A crash-state explorer: which states can a power failure leave, and does the broker keep its word in each?

    recording.py  a real broker under `load.py`, preloaded with `shim.c`, which notes every change of its files
    trace.py      that record, with what clients sent and were answered in the same order
    disk.py       what a disk may hold at any point of the record: what is synced, what may vanish
    states.py     legal states made from it, by seed; a bit is flipped in some of them
    opening.py    the broker's own recovery on a state, in this process or by the real program
    ledger.py     what was promised up to a point; `check.py` compares
    __main__.py   the command: `make crash-states`

In the manner of ALICE (Pillai et al., OSDI 2014) and CrashMonkey (Mohan et al., OSDI 2018).
"""

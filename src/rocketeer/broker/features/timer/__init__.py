"""When a waiting message is due: the timers in memory, their snapshot on disk. The timer feature puts them to use."""

"""When a waiting message is due: the wheel in memory, its snapshot on disk. The timer feature puts them to use."""

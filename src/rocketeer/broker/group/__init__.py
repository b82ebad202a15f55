"""A broker as a member of a group that elects its leader: `decisions` says in which role, `runs` runs it there."""

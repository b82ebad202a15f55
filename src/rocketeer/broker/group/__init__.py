"""A broker as a member of a group that elects its leader: `member` decides, `runs` runs a broker in each role."""

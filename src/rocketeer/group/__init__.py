"""Groups of brokers that lose nothing: etcd decides who leads, members copy its log and count by epochs."""

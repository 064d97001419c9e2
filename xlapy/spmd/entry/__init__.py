"""The entry computation of a partitioned program: its shardings, global arrays, and the number of partitions."""

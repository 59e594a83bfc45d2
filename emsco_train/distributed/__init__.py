"""Training on rows in partitions: sums and counts of each partition are added up, and rows stay where they are."""

"""From a table to a problem: columns, features learned from the train rows, splits, labels, thresholds."""

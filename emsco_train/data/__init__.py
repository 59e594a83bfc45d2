"""From a table to a problem: columns, features learnt from the train rows, splits, labels, thresholds."""

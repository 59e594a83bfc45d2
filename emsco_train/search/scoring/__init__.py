"""From feature sets to objectives: each set is fitted once, kept as bits, and designs are counted from the bits."""

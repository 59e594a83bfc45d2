"""Logistic regressions of many feature sets at once: batched, compiled, to convergence, the same whatever the batch."""

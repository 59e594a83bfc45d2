"""The paper's experiments, its comparators and today's alternatives; results in docs/results.md.

From the folder benchmarks: ``python -m paper fronts``, and likewise for the other experiments; ``--help`` lists them. Each adds
what is missing to a CSV file, so that it can be interrupted and called again. ``python -m paper page`` makes figures and the
page.
"""

"""The paper's genetic algorithm, and `polish`, which is ours."""

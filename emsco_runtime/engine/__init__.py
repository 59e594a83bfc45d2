"""A cascade at work, without input or output: the plan, the walk, the scorer."""

"""The searches for the designs that trade coverage, accuracy and cost best."""

"""From labelled mail to a model's folder."""

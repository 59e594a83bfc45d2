"""The scikit-learn face of training."""

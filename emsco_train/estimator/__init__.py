"""The scikit-learn interface of training."""

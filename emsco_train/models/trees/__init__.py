"""Classifiers made of trees, read exactly: one record for all libraries, and the ONNX node that evaluates it in float64."""

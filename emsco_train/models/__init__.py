"""The stages of one design as ONNX models, and what they do with rows."""

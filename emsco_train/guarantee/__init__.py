"""What can be guaranteed of a design: bounds on its error, the choice under a largest error, and how far confidences hold."""

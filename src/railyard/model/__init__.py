"""What training and serving know alike of a model and of the hardware below it: shapes, rates, FLOPs, routing."""

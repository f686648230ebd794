"""Facts of a model and its hardware for training and serving: shapes, rates, FLOPs, routing."""

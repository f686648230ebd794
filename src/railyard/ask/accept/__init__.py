"""What a new cluster has to show before it is taken over: tests written from the model, and their reading."""

"""What the cluster is asked to do: training jobs, and the importers of models from elsewhere."""

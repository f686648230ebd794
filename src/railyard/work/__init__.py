"""What the cluster is asked to do: training jobs, requests, and traces that are run again."""

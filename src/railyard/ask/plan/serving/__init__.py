"""The cheapest hardware, layout and number of replicas for each stage of a pipeline, within its objective."""

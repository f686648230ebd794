"""Training on several sites with local steps and occasional synchronization."""

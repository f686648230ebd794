"""Methods for training on several sites, one file each; creating the record registers it."""

"""The engine `lab`: the same work run for real, by processes in network namespaces over shaped links."""

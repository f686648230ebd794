"""How fast jobs are beside their neighbours on the shared network, by the flow engine."""

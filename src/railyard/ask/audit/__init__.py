"""What is wrong with a network as found, and what each fault costs."""

"""Random faults and the tests that should notice them."""

"""Long answers in words: the tables and sentences that commands print."""

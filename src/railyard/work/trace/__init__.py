"""Work read from files of others: execution traces, schedules, connection matrices; each file yields a task graph."""
